#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/kernels/partition.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/device_mesh.h"
#include "kolo/parallel/training_step.h"
#include "kolo/train/objective.h"

namespace kolo {

// The parts of a network that several ranks have.
struct NetworkParts {
  Communicator ranks;              // that have them
  std::vector<std::string> names;  // of all parameters, then of all buffers, in the network's order
};

// A network in training, as one rank has it: whole, or a part (PipelinedNetwork). It computes a
// batch's gradients; TrainingStep averages and applies them.
//
// One thread uses it. Every rank has one of the same network.
class TrainedNetwork {
 public:
  virtual ~TrainedNetwork() = default;

  // Modules that this rank trains, under the names that they have in the whole network.
  [[nodiscard]] virtual const std::shared_ptr<torch::nn::Module>& module() const = 0;
  [[nodiscard]] virtual const Objective& objective() const = 0;
  // Ranks with the same part, over which gradients are averaged.
  [[nodiscard]] virtual const Communicator& replicas() const = 0;
  // Null: this rank has the whole network.
  [[nodiscard]] virtual const NetworkParts* parts() const { return nullptr; }

  struct Step {
    const Batch& batch;
    torch::Tensor
        stop_flag;  // [numbers], float64, on the module's device: added up with the metrics
    double learning_rate = 0;
    std::int64_t number = 1;
  };
  // Makes a step, from TrainingStep::begin() to finish(), whose sums are metric_sums() and the stop
  // flag's. Collective.
  [[nodiscard]] virtual TrainingStep::Pending make(TrainingStep& training, const Step& step) = 0;

  // Measures a batch of a validation: metric_sums() where the outputs are, and zeros elsewhere.
  // Without gradients. Collective over the ranks of parts().
  [[nodiscard]] virtual torch::Tensor measure(const Batch& batch) = 0;
};

// Lets a network's layers compute samples that the ranks of mesh.spatial() share, by halo exchanges
// and, where a level is too small to be cut, by gathering it: Network::share_samples() takes it.
// `lengths`: of a sample, by axis after the channels. Local. InputError for a network without
// field_layers(), and for samples that the mesh can't cut: it says what fits.
[[nodiscard]] std::shared_ptr<const Partition> make_spatial_partition(
    const DeviceMesh& mesh, const Network& network, std::span<const std::int64_t> lengths);

}  // namespace kolo
