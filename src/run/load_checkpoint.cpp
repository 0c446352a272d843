#include "run/resume.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// Reads a step's number, also with the leading zeros of a folder's name.
std::optional<std::int64_t> step_of(std::string_view text) {
  while (text.size() > 1 && text.starts_with('0')) text.remove_prefix(1);
  const auto step = parse_number<std::int64_t>(text);
  return step && *step >= 0 ? step : std::nullopt;
}

// Text "it holds those of the steps 13, 26 (the best), 39".
std::string what_there_is(const CheckpointStore& store) {
  std::vector<std::string> names;
  const auto best = store.best();
  for (const auto& entry : store.list()) {
    const bool is_best = best && best->step == entry.step;
    names.push_back(fmt::format("{}{}", entry.step, is_best ? " (the best)" : ""));
  }
  std::ranges::reverse(names);
  if (names.empty()) return "it holds none that can be used";
  return fmt::format("it holds those of the steps {}", fmt::join(names, ", "));
}

// Path of the entry. Refuses where a newer, damaged checkpoint may be the wanted one.
fs::path found(const CheckpointStore& store, const std::optional<CheckpointStore::Entry>& entry,
               const std::string& choice) {
  for (const auto& damaged : store.damaged()) {
    if (entry && damaged.step <= entry->step) continue;
    throw InputError(fmt::format(
        "checkpoint: which one is the {} can't be told: {} is damaged: {}; name another one: {}",
        choice, damaged.path.string(), damaged.reason, what_there_is(store)));
  }
  return entry ? entry->path : fs::path();
}

[[noreturn]] void refuse_empty(const RunFolder& folder) {
  throw InputError(
      fmt::format("resume: {} holds no checkpoint that can be used; name the folder of the run "
                  "that is to go on "
                  "(--output DIR), or run without --resume to start from the beginning",
                  folder.checkpoints().string()));
}

}  // namespace

fs::path find_checkpoint(const RunFolder& folder, const std::string& choice) {
  const auto store = folder.checkpoint_store();
  if (choice == newest_checkpoint) {
    const auto all = store.list();
    const auto path = found(store, all.empty() ? std::nullopt : std::optional(all.front()), choice);
    if (!path.empty()) return path;
    throw InputError(fmt::format("checkpoint: {} holds none", folder.checkpoints().string()));
  }
  if (choice == "best") {
    if (auto path = found(store, store.best(), choice); !path.empty()) return path;
    throw InputError(
        fmt::format("checkpoint: no checkpoint in {} was the best when it was saved; {}",
                    folder.checkpoints().string(), what_there_is(store)));
  }
  if (const auto step = step_of(choice)) {
    for (const auto& entry : store.list())
      if (entry.step == *step) return entry.path;
    // Reading it tells what is wrong with it.
    const auto damaged = folder.checkpoints() / fmt::format("step-{:08}", *step);
    if (fs::exists(damaged)) return damaged;
    throw InputError(fmt::format("checkpoint: {} holds no checkpoint of step {}; {}",
                                 folder.checkpoints().string(), *step, what_there_is(store)));
  }
  const fs::path path = fs::absolute(choice).lexically_normal();
  if (fs::exists(path / "manifest.json")) return path.has_filename() ? path : path.parent_path();
  throw InputError(fmt::format(
      "checkpoint: {} is no checkpoint, which is a folder step-NNNNNNNN with manifest.json "
      "in it; give newest, best, a step, or a checkpoint's folder",
      choice));
}

LoadedCheckpoint load_named(const fs::path& path, CheckpointReading reading) {
  try {
    return CheckpointStore::load(path, reading);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw InputError(fmt::format("checkpoint: {} can't be used: {}", path.string(), error.what()));
  }
}

LoadedCheckpoint load_chosen(const RunFolder& folder, const std::string& choice,
                             const std::function<void(const std::string&)>& warn,
                             CheckpointReading reading) {
  const auto store = folder.checkpoint_store();
  if (choice == newest_checkpoint) {
    auto loaded = store.load_newest(warn, reading);
    if (!loaded) refuse_empty(folder);
    return std::move(*loaded);
  }
  const bool is_of_folder = choice == "best" || step_of(choice);
  if (is_of_folder && !folder.holds_step_folder()) refuse_empty(folder);
  return load_named(find_checkpoint(folder, choice), reading);
}

ResumePoint resume_point(const LoadedCheckpoint& loaded) {
  const auto& state = loaded.content.state;
  try {
    ResumePoint point{loaded.path, loaded.step};
    point.epoch = state.at("epoch").get<std::int64_t>();
    point.position = state.at("position").get<std::int64_t>();
    point.best_epoch = state.at("best_epoch").get<std::int64_t>();
    point.ranks = state.value("ranks", 1);
    point.made_with = state.value("made_with", nlohmann::json());
    if (state.contains("training_samples"))
      point.samples = state.at("training_samples").get<std::int64_t>();
    point.run = loaded.path.parent_path().parent_path();
    return point;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("resume: the state.json of {} is not one of kolo's: {}",
                            loaded.path.string(), in_plain_words(error)));
  }
}

}  // namespace kolo
