#pragma once

#include <memory>
#include <vector>

#include <torch/optim/optimizer.h>

namespace kolo::parallel {

// Keeps the parameter groups of two optimizers of LibTorch equal, of which one is the outside of
// the other: a scheduler may have either.
class OptionGroups {
 public:
  // Both must outlive this, and have equal groups.
  OptionGroups(torch::optim::Optimizer& inside, torch::optim::Optimizer& outside);

  // What one side's groups and defaults have got since the last time goes to the other side; where
  // both have, it is outside's. Groups that one side lacks are added to it. Options that are not of
  // LibTorch's own kinds are kept equal in their learning rate only, where they have one.
  void meet();

 private:
  void note();

  torch::optim::Optimizer& inside_;
  torch::optim::Optimizer& outside_;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> last_;  // defaults, then by group
};

}  // namespace kolo::parallel
