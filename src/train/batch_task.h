#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/data/loader.h"
#include "kolo/train/objective.h"
#include "kolo/train/trainer.h"

namespace kolo {

// Device of a network's parameters, which are all on one; the CPU for one without any.
[[nodiscard]] torch::Device device_of(const torch::nn::Module& network);

// The batch, on that device. The host goes on while it is copied.
[[nodiscard]] Batch moved_to(const torch::Device& device, Batch batch);

// The samples of one of several ranks in a batch (Batch::shares), as if they were a batch of their
// own; the whole batch where it is one rank's.
[[nodiscard]] Batch part_of(const Batch& batch, std::size_t part);

// What a step makes of a network's outputs.
struct TrainingNumbers {
  torch::Tensor loss;  // to call backward() on
  torch::Tensor sums;  // metric_sums()
};
[[nodiscard]] TrainingNumbers training_numbers(const Objective& objective,
                                               const torch::Tensor& outputs,
                                               const torch::Tensor& targets);

// A network that every rank has all of. Takes of the options what random numbers depend on, and
// whether steps are recorded or inner results recomputed. InputError for a network without stages
// that is to recompute.
[[nodiscard]] std::shared_ptr<TrainedNetwork> make_whole_network(Communicator communicator,
                                                                 std::shared_ptr<Network> network,
                                                                 Objective objective,
                                                                 const TrainerOptions& options);

// What to do when numbers are not finite any more. `skips`: steps that are not are left out
// already.
[[nodiscard]] std::string advice_on_what_is_not_finite(bool skips = false);

}  // namespace kolo
