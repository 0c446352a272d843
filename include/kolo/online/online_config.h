#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/nn/models.h"
#include "kolo/optim/catalogue.h"
#include "kolo/parallel/step_conflicts.h"
#include "kolo/sampling/reservoir.h"
#include "kolo/settings/choice.h"

// Configuration of a network inside a simulation and its training, with the names of `kolo train`'s
// configurations. src/online/online_config.cpp says which values a key accepts,
// docs/library/simulations.md what it means.
namespace kolo {

// Meaning of a sample in the arrays that a program hands over.
enum class SampleKind : std::uint8_t {
  batch,    // each array is one tensor of the network; its first dimension counts samples
  fields,   // the arrays together are one sample; each is a channel: [arrays, lengths...]
  cells,    // every place of the arrays is a sample; each array is a feature: [arrays]
  columns,  // every column along one axis is a sample; each array is a channel: [arrays, length]
  whole     // each array is one tensor, and all of them one sample, without a batch: graphs
};

constexpr auto enum_names(SampleKind) {
  return std::to_array<EnumName<SampleKind>>({{SampleKind::batch, "batch"},
                                              {SampleKind::fields, "fields"},
                                              {SampleKind::cells, "cells"},
                                              {SampleKind::columns, "columns"},
                                              {SampleKind::whole, "whole"}});
}

// Normalization of inputs or targets: none, or of each channel by mean and standard deviation of
// all samples so far.
enum class Normalized : std::uint8_t { none, channels };

constexpr auto enum_names(Normalized) {
  return std::to_array<EnumName<Normalized>>(
      {{Normalized::none, "none"}, {Normalized::channels, "channels"}});
}

// Fate of a sample that a full reservoir (keep_unseen) or mailbox can't take: push() reports it as
// refused, or as dropped.
enum class WhenFull : std::uint8_t { refuse, drop };

constexpr auto enum_names(WhenFull) {
  return std::to_array<EnumName<WhenFull>>(
      {{WhenFull::refuse, "refuse"}, {WhenFull::drop, "drop"}});
}

struct OnlineModelConfig {
  std::string name;  // of a ModelCatalogue, or "own": the program's
  OwnSettings own;
  // Shapes of one sample without the batch, for networks of the catalogue: [2], [4, 64, 64].
  std::vector<std::int64_t> inputs, outputs;
};

struct OnlineTrainingConfig : RateSettings {
  SampleKind samples = SampleKind::batch;
  std::int64_t column_axis = -1;  // of the array, from 0; negative: from the last
  std::int64_t batch_size = 32;   // per rank that trains
  std::int64_t every = 1;         // tick() trains at every so many-th call
  std::int64_t n_steps = 1;       // steps that it trains then
  double milliseconds = 0;        // above 0: trains for this long, instead of n_steps
  bool background = false;        // trains beside the solver, from start() on
  std::string loss = "mse";
  OwnSettings loss_own;
  std::string loss_file;            // TorchScript: forward(outputs, targets, extras) gives the loss
  std::vector<std::int64_t> ranks;  // training ranks; empty: see rank_stride
  std::int64_t rank_stride = 1;     // every so many-th rank trains, from 0 on
  bool apart = false;               // training ranks do nothing else, in serve()
  double clip_norm = 0;
  NonFiniteStep non_finite = NonFiniteStep::skip;
  std::optional<std::int64_t> max_steps;  // end of training and of the decay
  std::int64_t log_every = 100;           // steps between records; 0: none
};

struct OnlineReservoirConfig {
  ReservoirPolicy policy = ReservoirPolicy::uniform;
  std::string capacity = "256 MiB";  // per rank that trains
  std::int64_t minimum = 0;          // samples before the first step; 0: a batch
  std::int64_t reuse = 0;            // above 0: most draws per sample
  WhenFull when_full = WhenFull::refuse;
  std::int64_t mailbox = 64;  // most samples of a rank on their way to its trainer
};

struct NormalizationConfig {
  Normalized inputs = Normalized::none;
  Normalized targets = Normalized::none;
  std::int64_t freeze_after = 1000000;  // samples of all ranks; 0: never
};

struct OnlineCheckpointConfig {
  bool reservoir = true;  // its samples are saved with the network
};

struct OnlineConfig {
  std::string output_dir;  // folder for history and TensorBoard; empty: not written
  std::uint64_t seed = 1;
  OnlineModelConfig model;
  OptimizerConfig optimizer;
  OnlineTrainingConfig training;
  OnlineReservoirConfig reservoir;
  NormalizationConfig normalization;
  OnlineCheckpointConfig checkpoint;
};

// Reads and checks a configuration. `source`: a file, or the YAML itself if it has a line break.
// `overrides`: "training.every=5". InputError begins with FILE:LINE and names the key, the value
// and what is accepted.
[[nodiscard]] OnlineConfig load_online_config(const std::string& source,
                                              std::span<const std::string> overrides = {},
                                              const ModelCatalogue& models = built_in_models());

// Whole configuration as YAML, which ranks compare.
[[nodiscard]] std::string online_config_text(OnlineConfig config, const ModelCatalogue& models);

// Number of bytes in "2 GB", "512 MiB" or "1e6"; nothing for other text.
[[nodiscard]] std::optional<std::uint64_t> bytes_from_text(std::string_view text);

}  // namespace kolo
