#include "run/run_lock.h"

#include <iostream>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/run/launch_ranks.h"

namespace kolo {

namespace {

constexpr const char* starter_file = RunLock::file_names[0];
constexpr const char* writer_file = RunLock::file_names[1];
constexpr const char* advice =
    "; wait for it, or choose another folder with --output DIR (one run per folder)";

std::unique_ptr<FolderLock> take(const RunFolder& folder, const char* name,
                                 std::chrono::milliseconds wait, bool replaces_file = false) {
  FolderLockOptions options{.name = name,
                            .job = describe_job(),
                            .advice = advice,
                            .wait = wait,
                            .replaces_file = replaces_file};
  options.say = [&](const std::string& what) {
    std::cerr << fmt::format("kolo: output folder {}: {}", folder.path.string(), what) << std::endl;
  };
  try {
    return std::make_unique<FolderLock>(folder.path, options);
  } catch (const InputError& error) {
    throw InputError(fmt::format("output folder {}", error.what()));
  }
}

// Ranks whose launcher is gone are about to end.
constexpr std::chrono::milliseconds moment{200}, end_of_ranks{20000};

}  // namespace

void RunLock::start(bool starts_anew) {
  std::error_code error;
  for (auto made = std::filesystem::absolute(folder_.path, error);
       made.has_relative_path() && !std::filesystem::exists(made, error); made = made.parent_path())
    new_.push_back(made);
  is_marked_here_ = folder_.make();
  starter_ = take(folder_, starter_file, moment);
  if (!starts_anew || !folder_.holds_own_names()) return;
  // Ranks without a launcher may still write: waits for them.
  take(folder_, writer_file, end_of_ranks).reset();
  folder_.require_replaceable();
  moved_ = folder_.move_aside();
  auto of_moved = std::move(starter_);
  of_moved->follow(*moved_);
  try {
    is_marked_here_ = folder_.make();
    starter_ = take(folder_, starter_file, moment);
  } catch (const std::exception&) {
    of_moved.reset();
    give_name_back();
    throw;
  }
}

RunLock RunLock::of_launcher(const RunFolder& folder, bool starts_anew) {
  RunLock lock(folder);
  lock.start(starts_anew);
  take(folder, writer_file, end_of_ranks).reset();
  return lock;
}

RunLock::~RunLock() {
  try {
    if (starter_ && starter_->is_held() && !folder_.holds_own_names()) restore_folder();
  } catch (const std::exception&) {  // leaves an empty folder
  }
}

void RunLock::restore_folder() {
  if (!writer_) writer_ = take(folder_, writer_file, moment);  // no rank is about to begin a run
  if (is_marked_here_) std::filesystem::remove(folder_.mark());
  // The locks would leave their files after an exception.
  for (const auto* name : file_names) std::filesystem::remove(folder_.path / name);
  starter_.reset();
  writer_.reset();
  if (moved_) return give_name_back();
  std::error_code error;
  for (const auto& made : new_) std::filesystem::remove(made, error);  // if it is empty
}

void RunLock::give_name_back() {
  // Replaces only an empty folder: another process may have taken it meanwhile.
  std::error_code error;
  std::filesystem::rename(*moved_, folder_.path, error);
  std::cerr << fmt::format("kolo: output folder {}: no run has begun; the earlier one is {}",
                           folder_.path.string(), error ? moved_->string() : "there again")
            << std::endl;
}

std::string RunLock::describe_move() const {
  return moved_ ? fmt::format("{} held an earlier run; it is now {}\n", folder_.path.string(),
                              moved_->string())
                : std::string();
}

RunLock RunLock::of_rank_0(const RunFolder& folder, bool starts_anew) {
  RunLock lock(folder);
  const auto token = environment_variable(variable);
  const auto holder = FolderLock::last_holder(folder.path, starter_file);
  const bool is_launchers = token && holder && holder->token == *token;
  if (!is_launchers) lock.start(starts_anew);
  // A launcher restarts ranks only when the earlier ones have ended.
  lock.writer_ = take(folder, writer_file, end_of_ranks, /*replaces_file=*/is_launchers);
  return lock;
}

void RunLock::require_free(const RunFolder& folder) {
  // Taking the folder waits for ranks whose launcher is gone.
  const auto holder = FolderLock::living_holder(folder.path, starter_file);
  if (!holder) return;
  throw InputError(fmt::format("output folder {} is in use by {}{}", folder.path.string(),
                               holder->describe(), advice));
}

bool RunLock::is_held() const {
  return (!writer_ || writer_->is_held()) && (!starter_ || starter_->is_held());
}

void RunLock::require_held() const {
  if (is_held()) return;
  const auto holder = FolderLock::last_holder(folder_.path, writer_file);
  throw Error(fmt::format("output folder {} is not this run's any more: {}", folder_.path.string(),
                          holder
                              ? fmt::format("it was taken over by {}", holder->describe())
                              : "it was removed or renamed, so that nothing can be saved there"));
}

std::optional<LockHolder> RunLock::last_rank_0(const RunFolder& folder) {
  return FolderLock::last_holder(folder.path, writer_file);
}

}  // namespace kolo
