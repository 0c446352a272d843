#include "online/sample_store.h"

#include <algorithm>
#include <utility>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "parallel/kernels.h"

namespace kolo::online {

namespace {

std::int64_t channels_of(const TensorShape& shape) {
  return shape.lengths.empty() ? 1 : shape.lengths.front();
}

// Calls the function with each normalized tensor and its offset in a packed sample.
template <typename Function>
void for_each_normalized(const SampleShapes& shapes, const NormalizationConfig& config,
                         const Function& function) {
  std::size_t offset = 0;
  const auto group = [&](const TensorShapes& tensors, Normalized normalized) {
    for (const auto& tensor : tensors) {
      if (normalized == Normalized::channels && !tensor.is_integer) function(tensor, offset);
      offset += tensor.packed_bytes();
    }
  };
  group(shapes.inputs, config.inputs);
  group(shapes.targets, config.targets);
}

}  // namespace

ReservoirOptions SampleStore::options_for(const SampleShapes& shapes) const {
  const auto least = config_.training.batch_size;
  return {
      .policy = config_.reservoir.policy,
      .sample_bytes = narrow<std::int64_t>(shapes.packed_bytes()),
      .capacity_bytes = narrow<std::int64_t>(bytes_from_text(config_.reservoir.capacity).value()),
      .minimum = config_.reservoir.minimum > 0 ? config_.reservoir.minimum : least,
      .reuse = config_.reservoir.reuse,
      .seed = config_.seed,
      .rank = number_};
}

void SampleStore::require_shapes(const SampleShapes& shapes) {
  const std::lock_guard lock(mutex_);
  if (shapes_) {
    if (*shapes_ != shapes) throw InputError("online: samples of another shape than those before");
    return;
  }
  reservoir_.emplace(options_for(shapes));
  shapes_ = shapes;
}

std::optional<SampleShapes> SampleStore::shapes() const {
  const std::lock_guard lock(mutex_);
  return shapes_;
}

void SampleStore::measure(std::span<const std::byte> packed, const SampleShapes& shapes) {
  const std::lock_guard lock(mutex_);
  measure_locked(packed, shapes);
}

void SampleStore::measure_locked(std::span<const std::byte> packed, const SampleShapes& shapes) {
  if (is_frozen_) return;
  std::vector<std::int64_t> channels;
  for_each_normalized(shapes, config_.normalization, [&](const auto& tensor, std::size_t) {
    channels.push_back(channels_of(tensor));
  });
  if (channels.empty()) return;
  if (statistics_.empty())
    statistics_ = std::vector<RunningStatistics>(channels.begin(), channels.end());
  const auto is_alike = [](const RunningStatistics& each, std::int64_t count) {
    return std::cmp_equal(each.channels().size(), count);
  };
  if (!std::ranges::equal(statistics_, channels, is_alike)) {
    throw InputError(
        "online: samples with other channels than those before, by whose statistics they are "
        "normalized");
  }
  const auto bytes = shapes.packed_bytes();
  std::size_t first = 0;  // of finite samples in a row
  for (std::size_t end = 0; end <= packed.size(); end += bytes) {
    if (end < packed.size() && is_finite_sample(packed.subspan(end, bytes), shapes)) continue;
    if (first < end) measure_finite(packed.subspan(first, end - first), shapes);
    first = end + bytes;
  }
}

// A channel has one value per sample, or a run of values.
void SampleStore::measure_finite(std::span<const std::byte> packed, const SampleShapes& shapes) {
  const auto count = narrow<std::int64_t>(packed.size() / shapes.packed_bytes());
  const auto floats_per_sample = narrow<std::int64_t>(shapes.packed_bytes() / sizeof(float));
  std::size_t number = 0;
  for_each_normalized(
      shapes, config_.normalization, [&](const TensorShape& tensor, std::size_t offset) {
        auto& statistics = statistics_[number++];
        const auto* const first = reinterpret_cast<const float*>(packed.data() + offset);
        const auto channels = channels_of(tensor), within = tensor.count() / channels;
        for (std::int64_t channel = 0; channel < channels; ++channel) {
          const auto* const begin = first + channel * within;
          if (within == 1) {
            const auto reach = (count - 1) * floats_per_sample + 1;
            statistics.add(channel, std::span(begin, static_cast<std::size_t>(reach)),
                           floats_per_sample);
            continue;
          }
          for (std::int64_t sample = 0; sample < count; ++sample) {
            statistics.add(channel, std::span(begin + sample * floats_per_sample,
                                              static_cast<std::size_t>(within)));
          }
        }
        statistics.count_samples(count);
      });
}

bool is_finite_sample(std::span<const std::byte> sample, const SampleShapes& shapes) {
  std::size_t offset = 0;
  for (const auto* const group : {&shapes.inputs, &shapes.targets, &shapes.extras}) {
    for (const auto& tensor : *group) {
      if (!tensor.is_integer) {
        constexpr std::uint32_t exponent = 0x7F800000;
        const auto* const words = reinterpret_cast<const std::uint32_t*>(sample.data() + offset);
        if (parallel::has_all_bits(std::span(words, static_cast<std::size_t>(tensor.count())),
                                   exponent))
          return false;
      }
      offset += tensor.packed_bytes();
    }
  }
  return true;
}

std::int64_t SampleStore::add(std::span<const std::byte> packed, std::int64_t count,
                              PushReport& report) {
  const std::lock_guard lock(mutex_);
  const auto taken = take_finite(packed, count, shapes_.value(), report, [&](auto sample) {
    const auto arrival = reservoir_->arrive();
    if (arrival.outcome == Reservoir::Outcome::refused) return false;
    if (!arrival.memory.empty()) std::ranges::copy(sample, arrival.memory.begin());
    return true;
  });
  measure_locked(packed.first(static_cast<std::size_t>(taken) * shapes_->packed_bytes()), *shapes_);
  return taken;
}

std::int64_t SampleStore::batches_left() const {
  const std::lock_guard lock(mutex_);
  return reservoir_ ? reservoir_->draws_left() / config_.training.batch_size : 0;
}

Samples SampleStore::draw(const Normalization& normalization) {
  const std::lock_guard lock(mutex_);
  std::vector<std::span<const std::byte>> packed;
  for (const auto slot : reservoir_.value().draw(config_.training.batch_size))
    packed.push_back(reservoir_->sample(slot));
  return tensors_of(packed, *shapes_, config_.training.samples != SampleKind::whole, normalization);
}

SampleCounts SampleStore::counts() const {
  const std::lock_guard lock(mutex_);
  if (!reservoir_) return {};
  return {reservoir_->state().arrivals, reservoir_->size()};
}

std::int64_t SampleStore::capacity() const {
  const std::lock_guard lock(mutex_);
  return reservoir_ ? reservoir_->capacity() : 0;
}

std::vector<RunningStatistics> SampleStore::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void SampleStore::restore_statistics(std::vector<RunningStatistics> statistics) {
  const std::lock_guard lock(mutex_);
  statistics_ = std::move(statistics);
}

void SampleStore::freeze_statistics() {
  const std::lock_guard lock(mutex_);
  is_frozen_ = true;
}

void SampleStore::restore(std::optional<RestoredSamples> samples) {
  const std::lock_guard lock(mutex_);
  reservoir_.reset();
  shapes_.reset();
  if (samples) {
    reservoir_.emplace(std::move(samples->reservoir));
    shapes_ = std::move(samples->shapes);
  }
  statistics_.clear();
  is_frozen_ = false;
}

}  // namespace kolo::online
