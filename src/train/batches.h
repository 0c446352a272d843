#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/parallel/pipeline_step.h"
#include "kolo/train/objective.h"
#include "kolo/train/trainer.h"

// Numbers that training and validation make of batches.
namespace kolo {

// Device of a network's parameters, which are all on one; the CPU for one without any.
[[nodiscard]] torch::Device device_of(const torch::nn::Module& network);

// The samples of one of several ranks in a batch (Batch::shares), as if they were a batch of their
// own; the whole batch where it is one rank's.
[[nodiscard]] Batch part_of(const Batch& batch, std::size_t part);

// Loss of a network's outputs, to call backward() on, and their metric_sums().
[[nodiscard]] PipelineStep::Loss training_numbers(const Objective& objective,
                                                  const torch::Tensor& outputs,
                                                  const torch::Tensor& targets);

// A network that every rank has all of. Takes of the options what random numbers depend on, and
// whether steps are recorded or inner results recomputed. InputError for a network without stages
// that is to recompute.
[[nodiscard]] std::shared_ptr<TrainedNetwork> make_whole_network(Communicator communicator,
                                                                 std::shared_ptr<Network> network,
                                                                 Objective objective,
                                                                 const TrainerOptions& options);

// Advice for numbers that are not finite any more. `may_skip`: leaving out such steps would help.
[[nodiscard]] std::string advice_on_what_is_not_finite(bool may_skip = true);

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

// Text "the input of sample 3": of a loader's sample that is not finite, the same on all ranks;
// empty: there is none. Reads the whole dataset. Collective.
[[nodiscard]] std::string describe_not_finite_sample(const Communicator& communicator,
                                                     Loader& loader);

}  // namespace kolo
