#include "run/strict_resume.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "run/made_with.h"
#include "run/prepared_run.h"

namespace kolo {

namespace {

// How samples come to be where they are needed, what is told, and when a run ends: no number of a
// step depends on it.
constexpr std::array<std::string_view, 5> without_effect{
    "data.workers", "data.prefetch", "training.log_every", "training.check_replicas_every",
    "training.early_stopping_patience"};
// The end of a training is where its schedule ends; without one it is only the end.
constexpr std::array<std::string_view, 2> ends{"training.n_epochs", "training.max_steps"};

template <std::size_t count>
bool is_one_of(const std::array<std::string_view, count>& keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

// Places of data are not among them: there are as many samples, which is all that anybody knows.
bool has_effect(const std::string& key, const RunConfig& config) {
  const auto places = input_paths();
  if (std::ranges::find(places, key) != places.end()) return false;
  if (is_one_of(without_effect, key)) return false;
  if (key.starts_with("checkpoint.")) return false;
  if (is_one_of(ends, key)) return config.training.lr_decay != "none";
  // Virtual ranks are added up in one order, whatever carries them.
  return config.training.virtual_ranks == 0 || !key.starts_with("communication.");
}

std::vector<std::string> differences(const PreparedRun& run, int ranks,
                                     const nlohmann::json& made_with) {
  const auto& point = *run.resumed;
  std::vector<std::string> found;
  if (!run.changes.are_known)
    found.emplace_back("the settings so far are not known: there is no config.yaml of this kolo's");
  for (const auto& change : run.changes.settings)
    if (has_effect(change.key, run.config)) found.push_back(describe({change}));
  for (const auto& change : run.changes.of_data_order)
    if (std::ranges::find(found, change) == found.end()) found.push_back(change);
  if (point.ranks != ranks && !may_have_other_ranks(run.config)) {
    found.push_back(
        fmt::format("{} rank{} instead of {} (training.virtual_ranks gives any number of them the "
                    "same bits)",
                    ranks, ranks == 1 ? "" : "s", point.ranks));
  }
  if (auto making = describe_other_making(point.made_with, made_with); !making.empty())
    found.push_back(std::move(making));
  return found;
}

}  // namespace

bool may_have_other_ranks(const RunConfig& config) {
  return !config.checkpoint.strict_resume || config.training.virtual_ranks > 0;
}

void require_strict_resume(const PreparedRun& run, int ranks, const nlohmann::json& made_with) {
  const bool is_meant = run.config.checkpoint.strict_resume && run.resumed && run.finished.empty();
  if (!is_meant) return;
  const auto found = differences(run, ranks, made_with);
  if (found.empty()) return;
  refuse_setting(
      run.config, "checkpoint.strict_resume",
      fmt::format("the run would go on from {} to other results than it would have had: {}. Go on "
                  "with its own settings, ranks, machines and versions, or add "
                  "checkpoint.strict_resume=false to go on all the same",
                  run.resumed->checkpoint.string(), fmt::join(found, ", ")));
}

}  // namespace kolo
