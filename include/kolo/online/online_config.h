#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/nn/models.h"
#include "kolo/optim/catalogue.h"
#include "kolo/sampling/reservoir.h"
#include "kolo/settings/choice.h"

// Configuration of a network inside a simulation and its training. Names are those of
// `kolo train`'s configurations; what values a key accepts stands in src/online/online_config.cpp,
// what it means in docs/simulations.md.
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

// Fate of a step whose loss or gradients are not finite, on all ranks.
enum class OnlineNonFinite : std::uint8_t { skip, stop };

constexpr auto enum_names(OnlineNonFinite) {
  return std::to_array<EnumName<OnlineNonFinite>>(
      {{OnlineNonFinite::skip, "skip"}, {OnlineNonFinite::stop, "stop"}});
}

// Which tensors are normalized, channel by channel, by mean and standard deviation of all samples
// that came: none, or each channel.
enum class Normalized : std::uint8_t { none, channels };

constexpr auto enum_names(Normalized) {
  return std::to_array<EnumName<Normalized>>(
      {{Normalized::none, "none"}, {Normalized::channels, "channels"}});
}

// What push() does when the reservoir takes no more (keep_unseen): tells the program, or drops the
// sample.
enum class WhenFull : std::uint8_t { refuse, drop };

constexpr auto enum_names(WhenFull) {
  return std::to_array<EnumName<WhenFull>>(
      {{WhenFull::refuse, "refuse"}, {WhenFull::drop, "drop"}});
}

struct OnlineModelConfig {
  std::string name;  // one of a ModelCatalogue, or "own": the program's
  OwnSettings own;
  // Shapes of one sample, without the batch, for networks of the catalogue: [2], [4, 64, 64].
  std::vector<std::int64_t> inputs, outputs;
};

struct OnlineTrainingConfig : RateSettings {
  SampleKind samples = SampleKind::batch;
  std::int64_t column_axis = -1;  // of the array, from 0; negative: from the last
  std::int64_t batch_size = 32;   // per rank that trains
  std::int64_t every = 1;         // time steps: tick() trains at every so many-th call
  std::int64_t n_steps = 1;       // then
  double milliseconds = 0;        // above 0: as many steps as take so long, instead of n_steps
  bool background = false;        // steps go on beside the solver, from start() on
  std::string loss = "mse";
  OwnSettings loss_own;
  std::string loss_file;            // TorchScript: forward(outputs, targets, extras) gives the loss
  std::vector<std::int64_t> ranks;  // that train; empty: see rank_stride
  std::int64_t rank_stride = 1;     // every so many-th rank trains, from 0 on
  bool apart = false;               // those that train do nothing else, in serve()
  double clip_norm = 0;
  OnlineNonFinite non_finite = OnlineNonFinite::skip;
  std::optional<std::int64_t> max_steps;  // what a decay reaches its end with; then no more steps
  std::int64_t log_every = 100;           // steps between two records; 0: none
};

struct OnlineReservoirConfig {
  ReservoirPolicy policy = ReservoirPolicy::uniform;
  std::string capacity = "256 MiB";  // per rank that trains
  std::int64_t minimum = 0;          // samples before the first step; 0: a batch
  std::int64_t reuse = 0;            // above 0: draws per sample that came, at most
  WhenFull when_full = WhenFull::refuse;
  std::int64_t mailbox = 64;  // samples that a rank may have on their way to one that trains
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
  std::string output_dir;  // of history and TensorBoard; empty: none are written
  std::uint64_t seed = 1;
  OnlineModelConfig model;
  OptimizerConfig optimizer;
  OnlineTrainingConfig training;
  OnlineReservoirConfig reservoir;
  NormalizationConfig normalization;
  OnlineCheckpointConfig checkpoint;
};

// Reads and checks a configuration. `source`: a file, or, where there is a line break in it, the
// YAML itself. `overrides`: "training.every=5". InputError that begins with FILE:LINE and names the
// key, the value and what is accepted.
[[nodiscard]] OnlineConfig load_online_config(const std::string& source,
                                              std::span<const std::string> overrides = {},
                                              const ModelCatalogue& models = built_in_models());

// All that is said in a configuration, as YAML: ranks compare it.
[[nodiscard]] std::string online_config_text(OnlineConfig config, const ModelCatalogue& models);

// "2 GB", "512 MiB", "1e6" (bytes) as a number of bytes; nothing for what is none.
[[nodiscard]] std::optional<std::uint64_t> bytes_from_text(std::string_view text);

}  // namespace kolo
