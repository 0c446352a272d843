#include "cli/train/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/file.h"
#include "kolo/observe/tensorboard.h"

namespace kolo {

namespace fs = std::filesystem;

CheckpointStore RunFolder::checkpoint_store(std::int64_t keep) const {
  return CheckpointStore({checkpoints(), narrow<int>(keep)});
}

bool RunFolder::holds_a_run() const {
  return fs::exists(config()) && (fs::exists(history()) || fs::exists(checkpoints()));
}

bool RunFolder::holds_checkpoint() const {
  constexpr int any = 1;                          // how many are kept matters to who writes only
  const auto silent = [](const std::string&) {};  // the ranks warn of damaged ones
  return fs::is_directory(checkpoints()) && checkpoint_store(any).load_newest(silent).has_value();
}

void RunFolder::require_writable() const {
  const auto refuse = [&](const fs::path& place, const std::string& reason) {
    throw InputError(fmt::format("output folder {}: {} {}; choose another with --output DIR",
                                 path.string(), place.string(), reason));
  };
  // What exists of the path must be folders, and the last of them must let us in.
  std::error_code error;
  fs::path existing = fs::absolute(path, error).lexically_normal();
  if (error || path.empty()) refuse(path, "is not a usable path");
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    if (error && error != std::errc::not_a_directory) refuse(existing, error.message());
    existing = existing.parent_path();
  }
  if (!fs::is_directory(existing)) refuse(existing, "is not a folder");
  // Only trying tells: permissions, quotas and special file systems all have their say.
  std::string trial = existing / ".kolo-XXXXXX";
  if (::mkdtemp(trial.data()) == nullptr)
    refuse(existing, "is not writable: " + std::generic_category().message(errno));
  if (::rmdir(trial.c_str()) != 0) {
    refuse(existing, "can't be tidied: " + std::generic_category().message(errno));
  }
}

void RunFolder::make() const {
  fs::create_directories(path);
  if (fs::is_empty(path)) write_file_atomically(mark(), "This folder was made by kolo.\n");
}

std::vector<std::string> RunFolder::entries_of_others() const {
  static const std::set<std::string, std::less<>> own{
      "config.yaml",   "run.json", "out.log",     "history.json",     "model.txt", "model.pt",
      "timeline.json", "timeline", "checkpoints", ".kolo-rank0.lock", ".kolo.lock"};
  std::vector<std::string> others;
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto name = entry.path().filename().string();
    const bool is_own = own.contains(name) || name.starts_with(event_file_prefix) ||
                        (name.starts_with("config.") && name.ends_with(".yaml"));
    if (!is_own) others.push_back(name);
  }
  std::ranges::sort(others);
  return others;
}

void RunFolder::require_replaceable() const {
  constexpr std::size_t most_named = 5;
  if (!fs::is_directory(path) || fs::is_empty(path)) return;
  const bool has_run = holds_a_run();
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format(
        "output folder {} {}, but {}; choose another folder with --output DIR{}", path.string(),
        has_run ? "holds an earlier run, which would be moved aside"
                : "holds a config.yaml, which would be overwritten",
        why, has_run ? ", go on with that run with --resume, or move it yourself" : ""));
  };
  if (!has_run) {
    // Something else than what a run of kolo leaves that ended at once.
    if (fs::exists(config()) && !fs::exists(mark()) && !fs::exists(log()))
      refuse("no run of kolo did write it");
    return;
  }
  if (fs::is_symlink(path)) refuse("it is a link");
  const auto inside = fs::current_path().lexically_relative(fs::canonical(path));
  if (!inside.empty() && *inside.begin() != "..") refuse("it is the folder that you are in");
  const auto others = entries_of_others();
  if (fs::exists(mark()) || others.empty()) return;
  refuse(fmt::format(
      "it was not made by kolo: it also holds {}{}",
      fmt::join(others.begin(),
                others.begin() + static_cast<std::ptrdiff_t>(std::min(others.size(), most_named)),
                ", "),
      others.size() > most_named ? ", ..." : ""));
}

fs::path RunFolder::move_aside() const {
  const fs::path clean = path.has_filename() ? path : path.parent_path();  // without a slash
  int number = 1;
  while (fs::exists(fmt::format("{}.{}", clean.string(), number))) ++number;
  fs::path moved = fmt::format("{}.{}", clean.string(), number);
  rename_durably(clean, moved);
  return moved;
}

void RunFolder::remove_leftovers() const {
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto name = entry.path().filename().string();
    const bool is_ours = name.starts_with("history.json.") || name.starts_with("config.") ||
                         name.starts_with("model.txt.") || name.starts_with("run.json.") ||
                         name.starts_with("timeline.json.") || name.starts_with(".curves.") ||
                         name.starts_with(".kolo-run.");
    if (is_ours && name.ends_with(".part") && entry.is_regular_file())
      leftovers.push_back(entry.path());
  }
  for (const auto& file : leftovers) fs::remove(file);
}

fs::path RunFolder::keep_config() const {
  int number = 1;
  while (fs::exists(path / fmt::format("config.{}.yaml", number))) ++number;
  fs::path kept = path / fmt::format("config.{}.yaml", number);
  write_file_atomically(kept, read_text_file(config()));
  return kept;
}

}  // namespace kolo
