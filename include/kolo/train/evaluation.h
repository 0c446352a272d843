#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/nn/metrics.h"
#include "kolo/nn/network.h"
#include "kolo/train/objective.h"

namespace kolo {

// Is told how many of this rank's batches are done: 0 at the beginning, then after each.
using EvaluationProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// The sums over a loader's whole dataset on all ranks, each sample counted once if the loader's
// sampler draws it once. In evaluation mode; the network is in training mode afterwards. `matrix`,
// when given, gets the counts of all ranks added. Collective.
//
// The counts are the same for any number of ranks; the loss differs in the last digits, as its
// terms are added in another order.
[[nodiscard]] MetricSums evaluate(const Communicator& communicator, Network& network,
                                  const Objective& objective, Loader& loader,
                                  ConfusionMatrix* matrix = nullptr,
                                  const EvaluationProgress& progress = {});

// The same, but nothing when a rank asks to stop, as `stop_requested` tells after each of its
// batches: then all ranks leave after the same batch. Costs a small asynchronous all-reduce a
// batch.
[[nodiscard]] std::optional<MetricSums> evaluate_unless_stopped(
    const Communicator& communicator, Network& network, const Objective& objective, Loader& loader,
    const std::function<bool()>& stop_requested, ConfusionMatrix* matrix = nullptr,
    const EvaluationProgress& progress = {});

}  // namespace kolo
