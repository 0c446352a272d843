#include "online/sample_store.h"

#include <utility>

#include "kolo/parallel/object_collectives.h"

namespace kolo {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChannelStatistics, count, left_out, mean, squares)

static void to_json(nlohmann::json& json, const RunningStatistics& statistics) {
  json = {{"samples", statistics.samples()}, {"channels", statistics.channels()}};
}

}  // namespace kolo

namespace kolo::online {

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
