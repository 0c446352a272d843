#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/comm/communicator.h"
#include "kolo/online/online_network.h"
#include "kolo/sampling/reservoir.h"
#include "kolo/sampling/running_statistics.h"
#include "online/samples.h"

namespace kolo::online {

// Records of samples, one after another.
struct Records {
  std::vector<std::byte> bytes;
  std::int64_t count = 0;
};

// The samples that a rank trains on: its reservoir, and the statistics of all that came. Any thread
// may call.
class SampleStore {
 public:
  SampleStore(const OnlineConfig& config, int rank);

  // The first samples make the reservoir: InputError where it can't hold one, or the machine not
  // it. Later ones must be like them.
  void require_shapes(const SampleShapes& shapes);
  [[nodiscard]] std::optional<SampleShapes> shapes() const;

  // Samples as they come; returns how many were taken, which are the first ones. Those that aren't
  // finite are left out, and counted as taken.
  std::int64_t add(std::span<const std::byte> records, std::int64_t count, PushReport& report);

  // How many batches may be drawn now.
  [[nodiscard]] std::int64_t batches_left() const;
  [[nodiscard]] Samples draw(const Normalization& normalization);

  [[nodiscard]] SampleCounts counts() const;
  [[nodiscard]] std::int64_t capacity() const;  // samples; 0 before the first came

  // Per tensor, inputs first, then targets; one channel each that is normalized.
  [[nodiscard]] std::vector<RunningStatistics> statistics() const;
  void restore_statistics(std::vector<RunningStatistics> statistics);
  // From now on statistics are not kept.
  void freeze_statistics();

  // For checkpoints, while nobody else uses the store. Null before the first samples.
  [[nodiscard]] const Reservoir* reservoir() const { return reservoir_ ? &*reservoir_ : nullptr; }
  // Becomes what was saved; the contents are to be written to what is returned. InputError where
  // it doesn't fit.
  [[nodiscard]] std::span<std::byte> restore(const SampleShapes& shapes,
                                             const ReservoirState& state,
                                             std::span<const std::int64_t> order);
  // Without samples.
  void clear();
  [[nodiscard]] ReservoirOptions options_for(const SampleShapes& shapes) const;

 private:
  void measure(std::span<const std::byte> records, std::int64_t count);
  [[nodiscard]] bool is_finite(std::span<const std::byte> record) const;
  void make_statistics();

  OnlineConfig config_;
  int rank_;
  mutable std::mutex mutex_;
  std::optional<SampleShapes> shapes_;
  std::optional<Reservoir> reservoir_;
  std::vector<RunningStatistics> statistics_;
  bool is_frozen_ = false;
};

// Normalizes tensors, by the statistics of all samples that came to the ranks that train;
// the same bits on all of them. Fixed once enough samples have come.
class Normalizer {
 public:
  explicit Normalizer(const NormalizationConfig& config) : config_(config) {}

  // Takes in all that has come until now, from the first samples on. Collective over the trainers,
  // unless nothing is normalized or it is fixed.
  void update(const Communicator& trainers, SampleStore& store);
  [[nodiscard]] const std::shared_ptr<const Normalization>& now() const { return now_; }

  // This rank's statistics, for a checkpoint; and back, merged from those of all ranks that saved
  // where they were others.
  [[nodiscard]] nlohmann::json state(const SampleStore& store) const;
  void restore(const nlohmann::json& states, int rank, int ranks, SampleStore& store);

 private:
  [[nodiscard]] bool is_off() const {
    return config_.inputs == Normalized::none && config_.targets == Normalized::none;
  }
  void make(const std::vector<RunningStatistics>& merged, const SampleShapes& shapes);

  NormalizationConfig config_;
  bool is_fixed_ = false;
  std::shared_ptr<const Normalization> now_ = std::make_shared<Normalization>();
};

// For other ranks.
[[nodiscard]] std::string to_bytes(const Normalization& normalization);
[[nodiscard]] Normalization normalization_from(std::string_view bytes);

}  // namespace kolo::online
