#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "kolo/config/derived_settings.h"
#include "kolo/config/run_config.h"
#include "kolo/data/catalogue.h"
#include "kolo/optim/flat_optimizer.h"

// Makers of the objects that a configuration describes. InputError for missing or malformed data,
// an unknown model, shapes that don't fit, more ranks than samples.
//
// Objects that need LibTorch are only declared here; include their headers to use them.
namespace kolo {

class Loader;           // kolo/data/loader.h
class Network;          // kolo/nn/network.h
struct Objective;       // kolo/train/objective.h
struct TrainerOptions;  // kolo/train/trainer.h

[[nodiscard]] Datasets make_datasets(const RunConfig& config, const DataReading& reading = {});
// At least `least` random samples in the shape of the configuration's data, to measure steps
// without the data.
[[nodiscard]] Datasets make_synthetic_datasets(const RunConfig& config, std::int64_t least);

// Opens what a user names as inputs for a network that was trained on samples of this layout, read
// as the run's validation samples are; nothing where the data are simulation boxes. InputError.
[[nodiscard]] std::optional<PredictionInputs> open_inputs(const RunConfig& config,
                                                          const SampleLayout& layout,
                                                          const std::filesystem::path& path);

// Network with the same weights on every rank and in every run with the same seed: this seeds
// LibTorch's default generator.
[[nodiscard]] std::shared_ptr<Network> make_network(
    const RunConfig& config, const SampleLayout& layout,
    const ModelCatalogue& models = built_in_models());

// Objective whose validation loss has no label smoothing, so that runs compare.
[[nodiscard]] Objective make_objective(const RunConfig& config);

[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(
    const RunConfig& config, const ModelCatalogue& models = built_in_models());

// Loader of a rank's share, shuffled (if so configured) and padded to equal length. `count`: the
// shares of so many virtual ranks from `rank` on.
[[nodiscard]] std::unique_ptr<Loader> make_training_loader(const RunConfig& config,
                                                           std::shared_ptr<const Dataset> dataset,
                                                           int rank, int ranks, int count = 1);
// Loader of a rank's share, each sample once over all ranks, in order.
[[nodiscard]] std::unique_ptr<Loader> make_validation_loader(const RunConfig& config,
                                                             std::shared_ptr<const Dataset> dataset,
                                                             int rank, int ranks, int count = 1);

[[nodiscard]] TrainerOptions make_trainer_options(const RunConfig& config);

}  // namespace kolo
