#pragma once

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "online/sample_store.h"

// Files of samples, one of each training rank, beside a network's checkpoint.
namespace kolo::online {

// Writes a training rank's samples and those that wait for room in its reservoir; returns what a
// checkpoint must know of them, null where there was none yet. `number`: the rank's.
[[nodiscard]] nlohmann::json write_samples(const std::filesystem::path& folder, int number,
                                           const SampleStore& store, const PackedSamples& held);

// Reads a training rank's samples if `ranks`, the number of training ranks, is that of those that
// saved, otherwise its share of all. `states`: what write_samples() has returned, of each rank.
// None if none were saved. InputError if they don't fit the store's configuration.
[[nodiscard]] std::optional<RestoredSamples> read_samples(const std::filesystem::path& folder,
                                                          const nlohmann::json& states, int number,
                                                          int ranks, const SampleStore& store);

}  // namespace kolo::online
