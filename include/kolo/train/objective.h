#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/base/network_stage.h"
#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/kernels/autocast.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/network.h"
#include "kolo/train/train_state.h"

namespace kolo {

// This rank's part of samples that several ranks share, each with its own rows.
struct SamplePart {
  int rank = 0;  // among those that share a sample; 0 counts it
  int ranks = 1;
  // Factor on the mean over this rank's rows that makes the ranks' mean the sample's: rows here x
  // ranks / rows of all.
  double loss_factor = 1;
};

// Goal of a training, and the counts that tell how well a network does.
struct Objective {
  LossFunction loss;             // of training
  LossFunction validation_loss;  // unset: as in training
  std::int64_t top = 0;          // counts targets among so many of the largest logits; 0: not
  Precision precision = Precision::fp32;  // of the network; the loss is computed in float32
  SamplePart part;                        // set by who shares samples among ranks
  bool counts_correct = true;             // false: targets are numbers, there is no right and wrong
};

inline constexpr std::int64_t metric_numbers = 4;  // of MetricSums

// The sums over one batch of a loss already computed, and of what is right in it:
// [metric_numbers], float64, in the order of MetricSums, on the loss's device. Added up over the
// ranks that share samples, each sample counts once. Waits for no device.
[[nodiscard]] torch::Tensor metric_sums(const Objective& objective, const torch::Tensor& loss,
                                        const torch::Tensor& outputs, const torch::Tensor& targets);
// Sums from metric_sums() on the host.
[[nodiscard]] MetricSums metrics_of(std::span<const double> numbers);

// InputError where LibTorch can't train in it; tries 3-D convolutions, forward and backward.
void require_precision(Precision precision);

// The network's outputs in float32 (with fp32 as they are), computed in the objective's precision.
[[nodiscard]] torch::Tensor forward_for(const Objective& objective, Network& network,
                                        const torch::Tensor& input);

// Probabilities [N, classes] by outputs [N, classes]; an output [N, 1] tells two classes apart.
[[nodiscard]] torch::Tensor class_probabilities(const torch::Tensor& outputs);

// Called with the outputs and targets of each of this rank's batches.
using EvaluationMeasure =
    std::function<void(const torch::Tensor& outputs, const torch::Tensor& targets)>;

// Called with how many of this rank's batches are done: 0 at the beginning, then after each.
using EvaluationProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// The sums over a loader's whole dataset on all ranks, each sample counted once if the loader's
// sampler draws it once; the loss's last digits depend on the number of ranks. In evaluation mode;
// the network is in training mode afterwards. `measure` gets this rank's batches alone.
// `virtual_ranks` above 0: the loader's sampler stands for this rank's virtual ranks, of which each
// is measured by itself, and the loss has the same bits on any number of ranks. Collective.
[[nodiscard]] MetricSums evaluate(const Communicator& communicator, Network& network,
                                  const Objective& objective, Loader& loader,
                                  const EvaluationMeasure& measure = {},
                                  const EvaluationProgress& progress = {}, int virtual_ranks = 0);

// A network's stages (Network::stages()) as forward_for() computes the whole: in the objective's
// precision and with its kernels; what the last one makes is in float32. With
// `recompute` backward computes inner results again (kolo/nn/network.h). Local.
[[nodiscard]] std::vector<NetworkStage> training_stages(const Objective& objective,
                                                        std::vector<NetworkStage> stages,
                                                        bool recompute = false);

}  // namespace kolo
