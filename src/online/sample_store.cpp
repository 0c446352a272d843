#include "online/sample_store.h"

#include <algorithm>
#include <utility>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "parallel/kernels.h"

namespace kolo {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChannelStatistics, count, left_out, mean, squares)

static void to_json(nlohmann::json& json, const RunningStatistics& statistics) {
  json = {{"samples", statistics.samples()}, {"channels", statistics.channels()}};
}

}  // namespace kolo

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

namespace {

using nlohmann::json;

RunningStatistics statistics_from(const json& document) {
  const auto channels = document.at("channels").get<std::vector<ChannelStatistics>>();
  RunningStatistics statistics(static_cast<std::int64_t>(channels.size()));
  statistics.restore(document.at("samples").get<std::int64_t>(), channels);
  return statistics;
}

std::vector<RunningStatistics> all_from(const json& list) {
  std::vector<RunningStatistics> all;
  for (const auto& each : list) all.push_back(statistics_from(each));
  return all;
}

// Merges statistics; ranks without samples have none.
void merge_into(std::vector<RunningStatistics>& merged, std::vector<RunningStatistics> more) {
  if (merged.empty()) {
    merged = std::move(more);
    return;
  }
  for (std::size_t i = 0; i < more.size(); ++i) merged.at(i).merge(more[i]);
}

// Packed samples are float32, whatever the program's arrays are.
ChannelScales scales_of(const RunningStatistics& statistics) {
  ChannelScales scales;
  for (const auto& channel : statistics.channels()) {
    scales.mean.push_back(channel.mean);
    scales.factor.push_back(1 / channel.scale(float32_rounding));
  }
  return scales;
}

}  // namespace

void Normalizer::update(const Communicator& trainers, SampleStore& store,
                        const SampleShapes& shapes) {
  if (!needs_statistics()) return;
  std::vector<RunningStatistics> merged;
  for (const auto& text : all_gather_bytes(trainers, json(store.statistics()).dump()))
    merge_into(merged, all_from(json::parse(text)));
  if (merged.empty()) return;
  make(merged, shapes);
  is_fixed_ = config_.freeze_after > 0 && merged.front().samples() >= config_.freeze_after;
  if (is_fixed_) store.freeze_statistics();
}

void Normalizer::make(const std::vector<RunningStatistics>& merged, const SampleShapes& shapes) {
  auto made = std::make_shared<Normalization>();
  std::size_t number = 0;
  const auto fill = [&](const TensorShapes& tensors, Normalized normalized, auto& scales) {
    for (const auto& tensor : tensors) {
      const bool has_some = normalized == Normalized::channels && !tensor.is_integer;
      scales.push_back(has_some ? std::optional(scales_of(merged.at(number++))) : std::nullopt);
    }
  };
  fill(shapes.inputs, config_.inputs, made->inputs);
  fill(shapes.targets, config_.targets, made->targets);
  now_ = std::move(made);
}

json Normalizer::state(const SampleStore& store) const {
  return {{"statistics", store.statistics()}, {"is_fixed", is_fixed_}, {"now", to_bytes(*now_)}};
}

void Normalizer::restore(const json& states, int rank, int ranks, SampleStore& store) {
  now_ = std::make_shared<const Normalization>(
      normalization_from(states.at(0).at("now").get<std::string>()));
  is_fixed_ = states.at(0).at("is_fixed").get<bool>();
  if (is_fixed_) store.freeze_statistics();
  if (static_cast<int>(states.size()) == ranks) {
    store.restore_statistics(all_from(states.at(static_cast<std::size_t>(rank)).at("statistics")));
    return;
  }
  if (rank != 0) return;
  std::vector<RunningStatistics> merged;
  for (const auto& state : states) merge_into(merged, all_from(state.at("statistics")));
  store.restore_statistics(std::move(merged));
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChannelScales, mean, factor)

// Doubles in JSON are read back with the same bits.
std::string to_bytes(const Normalization& normalization) {
  const auto group = [](const TensorScales& all) {
    json list = json::array();
    for (const auto& each : all) list.push_back(each ? json(*each) : json(nullptr));
    return list;
  };
  return json{{"inputs", group(normalization.inputs)}, {"targets", group(normalization.targets)}}
      .dump();
}

Normalization normalization_from(std::string_view bytes) {
  const auto document = json::parse(bytes);
  const auto group = [](const json& list) {
    TensorScales all;
    for (const auto& each : list)
      all.push_back(each.is_null() ? std::nullopt : std::optional(each.get<ChannelScales>()));
    return all;
  };
  return {group(document.at("inputs")), group(document.at("targets"))};
}

}  // namespace kolo::online
