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

// Samples in contiguous memory.
struct PackedSamples {
  std::vector<std::byte> bytes;
  std::int64_t count = 0;
};

// Saved samples, read back into a reservoir of their own.
struct RestoredSamples {
  SampleShapes shapes;
  Reservoir reservoir;
  PackedSamples held;  // that had no room in the reservoir yet
};

// Tells whether all floating-point numbers of a packed sample are finite.
[[nodiscard]] bool is_finite_sample(std::span<const std::byte> sample, const SampleShapes& shapes);

// Calls `take` with each finite one of packed samples until it returns false, and counts in the
// report those that it took and those that aren't finite. Returns the number of both together.
template <typename Take>
std::int64_t take_finite(std::span<const std::byte> packed, std::int64_t count,
                         const SampleShapes& shapes, PushReport& report, const Take& take) {
  const auto bytes = shapes.packed_bytes();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sample = packed.subspan(static_cast<std::size_t>(i) * bytes, bytes);
    if (!is_finite_sample(sample, shapes))
      ++report.not_finite;
    else if (take(sample))
      ++report.taken;
    else
      return i;
  }
  return count;
}

// Samples that a rank trains on: its reservoir, and statistics of all samples that arrived.
// Thread-safe.
class SampleStore {
 public:
  explicit SampleStore(const OnlineConfig& config) : config_(config) {}

  // Sets this rank's number among those that train, on which what is left to chance depends.
  void set_number(int number) { number_ = number; }

  // Makes the reservoir for the first samples: InputError if it can't hold one. Later samples must
  // have the same shapes.
  void require_shapes(const SampleShapes& shapes);
  [[nodiscard]] std::optional<SampleShapes> shapes() const;

  // Adds samples and returns how many of the first ones were taken. Samples that aren't finite are
  // left out, but count as taken.
  std::int64_t add(std::span<const std::byte> packed, std::int64_t count, PushReport& report);

  // Number of batches that may be drawn now.
  [[nodiscard]] std::int64_t batches_left() const;
  [[nodiscard]] Samples draw(const Normalization& normalization);

  [[nodiscard]] SampleCounts counts() const;
  [[nodiscard]] std::int64_t capacity() const;  // samples; 0 before the first

  // Adds packed samples to the statistics, but for those that aren't finite: nothing learns from
  // them. For samples that don't come to the reservoir. InputError for another number of channels.
  void measure(std::span<const std::byte> packed, const SampleShapes& shapes);
  // Statistics of each normalized tensor, inputs first, then targets.
  [[nodiscard]] std::vector<RunningStatistics> statistics() const;
  void restore_statistics(std::vector<RunningStatistics> statistics);
  // Stops updating the statistics.
  void freeze_statistics();

  // For checkpoints; no other thread may use the store meanwhile. Null before the first samples.
  [[nodiscard]] const Reservoir* reservoir() const { return reservoir_ ? &*reservoir_ : nullptr; }
  // Replaces all samples, and forgets the statistics. `samples`: none, or in a reservoir of
  // options_for().
  void restore(std::optional<RestoredSamples> samples);
  [[nodiscard]] ReservoirOptions options_for(const SampleShapes& shapes) const;

 private:
  void measure_locked(std::span<const std::byte> packed, const SampleShapes& shapes);
  void measure_finite(std::span<const std::byte> packed, const SampleShapes& shapes);

  OnlineConfig config_;
  int number_ = 0;
  mutable std::mutex mutex_;
  std::optional<SampleShapes> shapes_;
  std::optional<Reservoir> reservoir_;
  std::vector<RunningStatistics> statistics_;
  bool is_frozen_ = false;
};

// Normalization by the statistics of all samples on all training ranks, with the same bits on each.
// Fixed after normalization.freeze_after samples.
class Normalizer {
 public:
  explicit Normalizer(const NormalizationConfig& config) : config_(config) {}

  // Updates the normalization by all samples so far, of these shapes. Collective over the trainers,
  // unless nothing is normalized or it is fixed.
  void update(const Communicator& trainers, SampleStore& store, const SampleShapes& shapes);
  // Whether update() would change anything: something is normalized, and not fixed.
  [[nodiscard]] bool needs_statistics() const {
    return !is_fixed_ &&
           (config_.inputs != Normalized::none || config_.targets != Normalized::none);
  }
  [[nodiscard]] const std::shared_ptr<const Normalization>& now() const { return now_; }

  // State for a checkpoint, and back. restore() merges all saved statistics if the number of ranks
  // has changed.
  [[nodiscard]] nlohmann::json state(const SampleStore& store) const;
  void restore(const nlohmann::json& states, int rank, int ranks, SampleStore& store);

 private:
  void make(const std::vector<RunningStatistics>& merged, const SampleShapes& shapes);

  NormalizationConfig config_;
  bool is_fixed_ = false;
  std::shared_ptr<const Normalization> now_ = std::make_shared<Normalization>();
};

// Text that other ranks read.
[[nodiscard]] std::string to_bytes(const Normalization& normalization);
[[nodiscard]] Normalization normalization_from(std::string_view bytes);

}  // namespace kolo::online
