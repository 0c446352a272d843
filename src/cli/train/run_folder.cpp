#include "cli/train/run_folder.h"

#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/file.h"

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

std::optional<fs::path> RunFolder::prepare() const {
  std::optional<fs::path> moved;
  if (holds_a_run()) {
    const fs::path clean =
        path.has_filename() ? path : path.parent_path();  // without a slash at the end
    int number = 1;
    while (fs::exists(fmt::format("{}.{}", clean.string(), number))) ++number;
    moved = fmt::format("{}.{}", clean.string(), number);
    rename_durably(clean, *moved);
  }
  fs::create_directories(path);
  return moved;
}

}  // namespace kolo
