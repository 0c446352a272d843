#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kolo/comm/mpi.h"
#include "kolo/config/run_config.h"
#include "kolo/data/catalogue.h"
#include "kolo/data/loader.h"
#include "kolo/nn/models.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/train/recorders.h"
#include "kolo/train/trainer.h"

// From a configuration to the objects it describes. InputError for what only shows now: missing or
// malformed data, an unknown model, shapes that don't fit, more ranks than samples.
namespace kolo {

// How data is read.
struct DataReading {
  // Also what costs a question to the file system for each of many files (empty images); of several
  // ranks one is enough.
  bool looks_at_files = true;
  bool varies = true;  // false: training samples are read as those of a validation
  // Leaves Datasets::loads to the caller; false: they are done.
  bool loads_later = false;
  // What another rank has found with survey_datasets(); null: this one looks itself.
  std::shared_ptr<const std::string> survey = {};
};
[[nodiscard]] Datasets make_datasets(const RunConfig& config, const DataReading& reading = {});
// What one rank finds out about the data's files for all, so that a file system is asked once
// (DatasetEntry::survey); empty where there is nothing of that kind. The errors of make_datasets().
[[nodiscard]] std::string survey_datasets(const RunConfig& config, const DataReading& reading = {});
// "images", "crops", for rates.
[[nodiscard]] std::string sample_name(const DataConfig& data);
// Why the data can't do without a GPU; empty where it can.
[[nodiscard]] std::string need_of_gpu(const DataConfig& data);
// Random samples in the shape of the configuration's data, without reading any: for measuring steps
// where the data isn't. At least `least` of them.
[[nodiscard]] Datasets make_synthetic_datasets(const RunConfig& config, std::int64_t least);

// The same weights on every rank and in every run with the same seed: this seeds LibTorch's default
// generator.
[[nodiscard]] std::shared_ptr<Network> make_network(
    const RunConfig& config, const SampleLayout& layout,
    const ModelCatalogue& models = built_in_models());

// The validation's loss is without label smoothing, so that runs compare.
[[nodiscard]] Objective make_objective(const RunConfig& config);

// The penalty on squared weights that is in force: the configuration's, or the model's own unless
// there is a weight decay.
[[nodiscard]] double l2_of(const RunConfig& config,
                           const ModelCatalogue& models = built_in_models());
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(
    const RunConfig& config, const ModelCatalogue& models = built_in_models());

// "adam (epsilon 1e-08, added as in PyTorch)", for the log.
[[nodiscard]] std::string describe_optimizer(const OptimizerConfig& config);

// How the ranks share the work, as `parallel` says. InputError, with the place of the key, where
// that doesn't fit their number.
[[nodiscard]] MeshShape mesh_of(const RunConfig& config, int ranks);
// How many sets of samples they draw per step: the ranks but for those that share samples or a
// network; the virtual ranks, where there are any. The same errors, and one for fewer virtual ranks
// than ranks.
[[nodiscard]] int replicas_of(const RunConfig& config, int ranks);
// What messages call who draws one of them: "rank", "replica", "virtual rank".
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
// What the learning rate is scaled by: the number of ranks, or how many times the base batch the
// global one is.
[[nodiscard]] double batch_ratio_of(const TrainingConfig& training, int ranks);

// steps_per_epoch turns a warm-up in epochs into one in steps.
[[nodiscard]] LearningRate make_learning_rate(const RunConfig& config, int ranks,
                                              std::int64_t steps_per_epoch);

// Each rank's share, shuffled (if so configured) and padded to equal length. `count`: those of so
// many virtual ranks from `rank` on.
[[nodiscard]] std::unique_ptr<Loader> make_training_loader(const RunConfig& config,
                                                           std::shared_ptr<const Dataset> dataset,
                                                           int rank, int ranks, int count = 1);
// Each sample once over all ranks, in order.
[[nodiscard]] std::unique_ptr<Loader> make_validation_loader(const RunConfig& config,
                                                             std::shared_ptr<const Dataset> dataset,
                                                             int rank, int ranks, int count = 1);

[[nodiscard]] MpiOptions make_mpi_options(const CommunicationConfig& config);
// Whether an optimizer's steps are as long whatever the gradients' length: all but plain SGD's.
[[nodiscard]] bool divides_gradients(std::string_view optimizer);
[[nodiscard]] TrainerOptions make_trainer_options(const RunConfig& config);
// Of optimizer.lr_scaling adascale, for so many ranks (or replicas) and steps of an epoch; none: it
// is another one.
[[nodiscard]] std::optional<AdaScale> make_adascale(const RunConfig& config, int ranks,
                                                    std::int64_t steps_per_epoch);
// Passes over the data at most: training.n_epochs or, with adascale, which counts those of the base
// batch, more.
[[nodiscard]] std::int64_t most_epochs(const RunConfig& config, int ranks);
[[nodiscard]] CheckpointSchedule make_checkpoint_schedule(const CheckpointConfig& config);

}  // namespace kolo
