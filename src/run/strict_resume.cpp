#include "run/strict_resume.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/kernels/onednn.h"
#include "run/prepared_run.h"
#include "run/run_device.h"

namespace kolo {

namespace {

std::string with_dashes(const std::string& text) {
  std::string result;
  for (const char character : text) {
    const auto letter = static_cast<unsigned char>(character);
    if (std::isalnum(letter) != 0) {
      result += static_cast<char>(std::tolower(letter));
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (result.ends_with('-')) result.pop_back();
  return result;
}

std::string cpuinfo() {
  try {
    return read_text_file("/proc/cpuinfo");
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::string processor_name(const std::string& cpuinfo) {
  std::string name, family, model;
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto key = with_dashes(line.substr(0, colon)), value = line.substr(colon + 1);
    if (key == "model-name") name = value;
    if (key == "cpu-family") family = value;
    if (key == "model") model = value;
  }
  const auto result = with_dashes(fmt::format("{} {} {}", name, family, model));
  return result.empty() ? "processor" : result;
}

nlohmann::json made_with_here() {
  const auto libtorch = libtorch_facts();
  return {{"processor", processor_name(cpuinfo())},
          {"threads per rank", std::to_string(libtorch.threads)},
          {"kolo", KOLO_VERSION},
          {"LibTorch", libtorch.version},
          {"oneDNN", onednn_description()}};
}

std::string describe_other_making(const nlohmann::json& before, const nlohmann::json& now) {
  if (!before.is_object()) return {};
  std::vector<std::string> differences;
  for (const auto& [name, value] : now.items()) {
    const auto found = before.find(name);
    if (found == before.end() || *found == value || !found->is_string()) continue;
    differences.push_back(fmt::format("{} {} instead of {}", name, value.get<std::string>(),
                                      found->get<std::string>()));
  }
  return fmt::format("{}", fmt::join(differences, ", "));
}

namespace {

// How samples come to be where they are needed, who starts ranks, what is told, and when a run
// ends: no number of a step depends on it.
constexpr std::array<std::string_view, 6> without_effect{"data.workers",
                                                         "data.prefetch",
                                                         "training.log_every",
                                                         "training.check_replicas_every",
                                                         "training.early_stopping_patience",
                                                         "communication.launcher"};
// The end of a training is where its schedule ends; without one it is only the end.
constexpr std::array<std::string_view, 2> ends{"training.n_epochs", "training.max_steps"};

// Places of data are not among them: there are as many samples, which is all that anybody knows.
bool has_effect(const std::string& key, const RunConfig& config) {
  const auto places = input_paths();
  if (std::ranges::find(places, key) != places.end()) return false;
  if (std::ranges::count(without_effect, key) > 0) return false;
  if (key.starts_with("checkpoint.")) return false;
  if (std::ranges::count(ends, key) > 0) return config.training.lr_decay != "none";
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
