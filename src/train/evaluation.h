#pragma once

#include <functional>
#include <optional>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/train/objective.h"

// How well a network does on a data set, however it is computed.
namespace kolo {

// metric_sums() of a validation.
[[nodiscard]] torch::Tensor validation_sums(const Objective& objective,
                                            const torch::Tensor& outputs,
                                            const torch::Tensor& targets);

struct Evaluation {
  std::function<torch::Tensor(const Batch&)> sums_of;  // one batch's, as metric_sums()
  // Asked after each of this rank's batches: when one rank says yes, all leave after the same one,
  // for a small asynchronous all-reduce a batch.
  std::function<bool()> stop_requested = {};
  EvaluationProgress progress = {};
  // Above 0: the loader is that of this rank's parts (Batch::shares), of which each is measured by
  // itself; their sums are added up in one order (ordered_total()).
  int virtual_ranks = 0;
};

// The sums over a loader's whole dataset on all ranks; nothing where they have stopped. The module
// is in evaluation mode meanwhile, and in training mode afterwards. Collective.
[[nodiscard]] std::optional<MetricSums> evaluate_batches(const Communicator& communicator,
                                                         torch::nn::Module& module, Loader& loader,
                                                         const Evaluation& evaluation);

}  // namespace kolo
