#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/data/loader.h"
#include "kolo/nn/mixup.h"
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

// How batches are mixed (mixup.h), if they are.
struct Mixing {
  double alpha = 0;  // 0: they are not
  std::uint64_t seed = 1;
  int replica = 0;  // whose samples these are
};

// What a step asks of a network: what goes in, and what to make of what comes out.
class BatchTask {
 public:
  // Batch and step decide alone, so ranks that have parts of a network have the same task.
  BatchTask(const Objective& objective, const Batch& batch, const Mixing& mixing,
            std::int64_t steps_before);

  [[nodiscard]] const torch::Tensor& inputs() const { return batch_.inputs; }
  struct Result {
    torch::Tensor loss;  // to call backward() on
    torch::Tensor sums;  // metric_sums()
  };
  [[nodiscard]] Result measure(const torch::Tensor& outputs) const;
  // The same of some of the samples.
  [[nodiscard]] BatchTask part(std::int64_t first, std::int64_t samples) const;

 private:
  const Objective* objective_;
  MixedBatch batch_;  // without partners where it isn't mixed
};

// A network that every rank has all of. Takes of the options how batches are mixed, what random
// numbers depend on, and whether steps are recorded or inner results recomputed. InputError for a
// network without stages that is to recompute.
[[nodiscard]] std::shared_ptr<TrainedNetwork> make_whole_network(Communicator communicator,
                                                                 std::shared_ptr<Network> network,
                                                                 Objective objective,
                                                                 const TrainerOptions& options);

}  // namespace kolo
