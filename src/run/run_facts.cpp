#include "run/run_facts.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include "kolo/base/suggest.h"
#include "kolo/config/compare.h"

namespace kolo {

namespace {

bool is_place(std::string_view key) {
  constexpr std::array<std::string_view, 6> places{"data.path",       "data.train_dir",
                                                   "data.valid_dir",  "data.train_path",
                                                   "data.valid_path", "model.file"};
  return std::find(places.begin(), places.end(), key) != places.end();
}

void add_settings(std::vector<RankFact>& facts, const RunConfig& config) {
  for (const auto& [key, value] : settings_of(config))
    if (!is_place(key)) facts.push_back({key, value});
}

void add_dataset(std::vector<RankFact>& facts, const std::string& name, const Dataset& dataset) {
  const auto& layout = dataset.layout();
  facts.push_back({fmt::format("the number of {} samples", name), std::to_string(dataset.size())});
  facts.push_back({fmt::format("the shape of {} samples", name),
                   fmt::format("[{}]", fmt::join(layout.input_shape, ", "))});
  facts.push_back({fmt::format("the shape of {} targets", name),
                   fmt::format("[{}]", fmt::join(layout.target_shape, ", "))});
  facts.push_back(
      {fmt::format("the number of classes of {} data", name), std::to_string(layout.classes)});
}

}  // namespace

std::vector<RankFact> facts_of(const RunConfig& config, const Datasets& datasets) {
  std::vector<RankFact> facts = {{"kolo's version", KOLO_VERSION},
                                 {"LibTorch's version", TORCH_VERSION}};
  add_settings(facts, config);
  add_dataset(facts, "training", *datasets.training);
  add_dataset(facts, "validation", *datasets.validation);
  facts.push_back({"the classes' names", join(datasets.class_names)});
  return facts;
}

}  // namespace kolo
