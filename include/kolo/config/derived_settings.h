#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kolo/comm/mpi.h"
#include "kolo/config/run_config.h"
#include "kolo/data/dataset.h"
#include "kolo/optim/learning_rate.h"

// Numbers and words that follow from a configuration and the number of ranks, without making the
// objects that it describes. InputError names the place of a key that doesn't fit.
namespace kolo {

// "images", "crops", for rates.
[[nodiscard]] std::string sample_name(const DataConfig& data);
// Reason why the data needs a GPU; empty if it doesn't.
[[nodiscard]] std::string need_of_gpu(const DataConfig& data);

// Penalty on squared weights: the configuration's, or the model's own unless there is a weight
// decay.
[[nodiscard]] double l2_of(const RunConfig& config,
                           const ModelCatalogue& models = built_in_models());

// "adam (epsilon 1e-08, added as in PyTorch)", for the log.
[[nodiscard]] std::string describe_optimizer(const OptimizerConfig& config);

// The ranks as a mesh, as `parallel` says. InputError if that doesn't fit their number.
[[nodiscard]] MeshShape mesh_of(const RunConfig& config, int ranks);
// Number of replicas, each of which draws samples of its own: ranks that share samples or a network
// are one; with virtual ranks their number. InputError as mesh_of(), and for fewer virtual ranks
// than ranks.
[[nodiscard]] int replicas_of(const RunConfig& config, int ranks);
// Most replicas whose samples one rank draws: one, or the larger part of the virtual ranks.
[[nodiscard]] int most_replicas_of_rank(const RunConfig& config, int ranks);
// Name of a replica for messages: "rank", "replica", "virtual rank".
[[nodiscard]] std::string_view replica_name(const RunConfig& config);

// In the following, `ranks` are replicas_of() all.

// Samples of a rank and step. InputError, which calls ranks by `name`, if they can't share the
// global batch evenly.
[[nodiscard]] std::int64_t batch_size_of(const TrainingConfig& training, int ranks,
                                         std::string_view name = "rank");
// Samples of a rank and batch of the validation: as asked for, or as many as a pass of the training
// has, and more of small images.
[[nodiscard]] std::int64_t validation_batch_size_of(const RunConfig& config, const Dataset& dataset,
                                                    int ranks);
// Factor of the learning rate: the number of ranks, or the global batch divided by the base batch.
[[nodiscard]] double batch_ratio_of(const TrainingConfig& training, int ranks);

// steps_per_epoch turns a warm-up in epochs into one in steps.
[[nodiscard]] LearningRate make_learning_rate(const RunConfig& config, int ranks,
                                              std::int64_t steps_per_epoch);

[[nodiscard]] MpiOptions make_mpi_options(const CommunicationConfig& config);

}  // namespace kolo
