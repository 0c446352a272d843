#pragma once

#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace kolo {

// A module, several, or tensors that belong to none (an entropy coefficient, an image, parameters
// of a TorchScript module), which one reducer or optimizer trains together.
//
//   kolo::DistributedOptimizer optimizer(
//       communicator, {{actor.ptr(), critic.ptr()}, {log_alpha}},
//       torch::optim::Adam(parameters, 1e-3));  // of all of them
//
// Parameters are called as in the module, "0.fc.weight" in the first of several, "tensors.0" for
// the first tensor.
class TrainedModules {
 public:
  // Refers to the module, which must outlive whoever trains it.
  TrainedModules(const torch::nn::Module& module);  // NOLINT: a module is one
  // Keeps the modules and tensors. Error for a tensor that is not a leaf, and for nothing at all.
  TrainedModules(const std::vector<std::shared_ptr<torch::nn::Module>>& modules,
                 const std::vector<torch::Tensor>& tensors);
  TrainedModules(const std::vector<std::shared_ptr<torch::nn::Module>>& modules)  // NOLINT
      : TrainedModules(modules, {}) {}
  TrainedModules(const std::vector<torch::Tensor>& tensors)  // NOLINT
      : TrainedModules(std::vector<std::shared_ptr<torch::nn::Module>>{}, tensors) {}

  // Returns all as one module.
  [[nodiscard]] const torch::nn::Module& module() const { return joint_ ? *joint_ : *only_; }

 private:
  const torch::nn::Module* only_ = nullptr;
  std::shared_ptr<torch::nn::Module> joint_;
};

}  // namespace kolo
