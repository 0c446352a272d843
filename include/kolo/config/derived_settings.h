#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kolo/comm/mpi.h"
#include "kolo/config/run_config.h"
#include "kolo/data/dataset.h"
#include "kolo/optim/learning_rate.h"

// Numbers and words that follow from a configuration and the number of ranks, without making any of
// the objects that it describes. InputError, with the place of the key, for what doesn't fit.
namespace kolo {

// "images", "crops", for rates.
[[nodiscard]] std::string sample_name(const DataConfig& data);
// Reason why the data can't do without a GPU; empty where it can.
[[nodiscard]] std::string need_of_gpu(const DataConfig& data);

// The penalty on squared weights that is in force: the configuration's, or the model's own unless
// there is a weight decay.
[[nodiscard]] double l2_of(const RunConfig& config,
                           const ModelCatalogue& models = built_in_models());

// "adam (epsilon 1e-08, added as in PyTorch)", for the log.
[[nodiscard]] std::string describe_optimizer(const OptimizerConfig& config);

// The ranks as a mesh, as `parallel` says. InputError, with the place of the key, where that
// doesn't fit their number.
[[nodiscard]] MeshShape mesh_of(const RunConfig& config, int ranks);
// Number of sets of samples that they draw per step: the ranks but for those that share samples or
// a network; the virtual ranks, where there are any. The same errors, and one for fewer virtual
// ranks than ranks.
[[nodiscard]] int replicas_of(const RunConfig& config, int ranks);
// Name of one that draws such a set, for messages: "rank", "replica", "virtual rank".
[[nodiscard]] std::string_view replica_name(const RunConfig& config, int ranks);

// In the following, `ranks` are replicas_of() all.

// Samples a rank and step. InputError when the ranks can't share the global batch evenly: it says
// what would fit, and calls them by this name.
[[nodiscard]] std::int64_t batch_size_of(const TrainingConfig& training, int ranks,
                                         std::string_view name = "rank");
// Samples a rank and batch of the validation: as asked for, or as many as are known to fit in
// memory, since a pass of the training has as many, and of small images more.
[[nodiscard]] std::int64_t validation_batch_size_of(const RunConfig& config, const Dataset& dataset,
                                                    int ranks);
// Factor that the learning rate is scaled by: the number of ranks, or how many times the base batch
// the global one is.
[[nodiscard]] double batch_ratio_of(const TrainingConfig& training, int ranks);

// steps_per_epoch turns a warm-up in epochs into one in steps.
[[nodiscard]] LearningRate make_learning_rate(const RunConfig& config, int ranks,
                                              std::int64_t steps_per_epoch);

[[nodiscard]] MpiOptions make_mpi_options(const CommunicationConfig& config);

}  // namespace kolo
