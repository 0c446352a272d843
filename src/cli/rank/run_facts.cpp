#include "cli/rank/run_facts.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include "kolo/base/suggest.h"

namespace kolo {

namespace {

bool is_place(std::string_view key) {
  constexpr std::array<std::string_view, 6> places{"data.path",       "data.train_dir",
                                                   "data.valid_dir",  "data.train_path",
                                                   "data.valid_path", "model.file"};
  return std::find(places.begin(), places.end(), key) != places.end();
}

// One for each key of the two levels; what is nested deeper is part of its key's value.
void add_settings(std::vector<RankFact>& facts, const RunConfig& config) {
  std::istringstream lines(to_yaml(config));
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    const auto indent = line.find_first_not_of(' ');
    const auto colon = line.find(": ", indent == line.npos ? 0 : indent);
    if (indent == 0 && line.ends_with(':')) {
      section = line.substr(0, line.size() - 1) + ".";
    } else if (indent != line.npos && indent <= 2 && line[indent] != '-' && colon != line.npos) {
      if (indent == 0) section.clear();
      facts.push_back({section + line.substr(indent, colon - indent), line.substr(colon + 2)});
    } else if (!facts.empty()) {
      facts.back().value += line;
    }
  }
  std::erase_if(facts, [](const RankFact& fact) { return is_place(fact.name); });
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
