#include "run/run_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/folder_lock.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/tensorboard.h"
#include "run/launch/child.h"
#include "run/run_lock.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 9> run_names{"config.yaml",   "run.json",  "out.log",
                                                    "history.json",  "model.txt", "model.pt",
                                                    "timeline.json", "timeline",  "checkpoints"};
constexpr std::string_view mark_name = ".kolo-run";
constexpr std::string_view attempt_prefix = "attempt.";

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char letter) { return letter >= '0' && letter <= '9'; });
}

// Tells whether a run writes this name, and would overwrite it or take it for its own.
bool is_run_name(std::string_view name) {
  return std::ranges::find(run_names, name) != run_names.end() ||
         name.starts_with(event_file_prefix);
}

// Tells whether kolo leaves this name in a run's folder.
bool is_own_name(std::string_view name) {
  const bool is_kept =
      name.starts_with(attempt_prefix) && is_number(name.substr(attempt_prefix.size()));
  return is_run_name(name) || is_kept || name.starts_with(".kolo");
}

// Recognizes "rank-00003.json".
bool is_timeline_of_rank(std::string_view name) {
  constexpr std::string_view begin = "rank-", end = ".json";
  return name.size() > begin.size() + end.size() && name.starts_with(begin) &&
         name.ends_with(end) &&
         is_number(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

// Lists a folder; nothing where another process has just moved it away.
std::vector<fs::path> entries_in(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    entries.push_back(entry->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error(fmt::format("output folder: cannot list {}: {}", folder.string(), error.message()));
  std::ranges::sort(entries);
  return entries;
}

std::vector<std::string> names_in(const fs::path& folder, bool (*is_meant)(std::string_view)) {
  std::vector<std::string> names;
  for (const auto& entry : entries_in(folder)) {
    auto name = entry.filename().string();
    if (is_meant(name)) names.push_back(std::move(name));
  }
  return names;
}

// First folder below that a living run or study holds, and its holder.
std::optional<std::pair<fs::path, LockHolder>> holder_below(const fs::path& folder) {
  std::error_code ignored;  // of folders that can't be read
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const bool is_folder = entry->is_directory(ignored) && !entry->is_symlink(ignored);
    if (ignored || !is_folder) continue;
    const auto& below = entry->path();
    for (const auto* name : RunLock::file_names)
      if (auto holder = FolderLock::living_holder(below, name)) return std::pair{below, *holder};
    if (auto found = holder_below(below)) return found;
  }
  return std::nullopt;
}

// PATH.1, PATH.2, ...: the first that is free.
fs::path next_free(const std::string& path) {
  const auto name = [&](int number) { return fmt::format("{}.{}", path, number); };
  std::error_code error;
  int number = 1;
  while (fs::exists(fs::symlink_status(name(number), error))) ++number;
  if (error && error != std::errc::no_such_file_or_directory) {
    throw InputError(fmt::format(
        "output folder: {} can't be moved aside to {}: {}; choose another with --output DIR", path,
        name(number), error.message()));
  }
  return name(number);
}

[[noreturn]] void refuse_path(const fs::path& folder, const fs::path& place,
                              const std::string& reason) {
  throw InputError(fmt::format("output folder {}: {} {}; choose another with --output DIR",
                               folder.string(), place.string(), reason));
}

// Tries it, because permissions, quotas and special file systems all have their say.
void require_room_to_write(const fs::path& folder, const fs::path& place) {
  std::string trial = place / ".kolo-XXXXXX";
  if (::mkdtemp(trial.data()) == nullptr)
    refuse_path(folder, place, "is not writable: " + std::generic_category().message(errno));
  if (::rmdir(trial.c_str()) != 0)
    refuse_path(folder, place, "can't be tidied: " + std::generic_category().message(errno));
}

}  // namespace

CheckpointStore RunFolder::checkpoint_store(std::int64_t keep) const {
  // A run whose folder was taken away must not make it anew.
  return CheckpointStore({checkpoints(), narrow<int>(keep), /*makes_folders_above=*/false});
}

fs::path RunFolder::mark() const {
  return path / mark_name;
}

bool RunFolder::holds_a_run() const {
  return fs::exists(config()) && (fs::exists(history()) || fs::exists(checkpoints()));
}

bool RunFolder::holds_checkpoint(const std::function<void(const std::string&)>& problems) const {
  return fs::is_directory(checkpoints()) && checkpoint_store().holds_one(problems);
}

bool RunFolder::holds_step_folder() const {
  return fs::is_directory(checkpoints()) && !checkpoint_store().folders().empty();
}

void RunFolder::require_writable() const {
  // The existing part of the path must be folders, the last of them writable.
  std::error_code error;
  fs::path existing = fs::absolute(path, error).lexically_normal();
  if (error || path.empty()) refuse_path(path, path, "is not a usable path");
  if (!existing.has_relative_path()) refuse_path(path, path, "is the root of the file system");
  for (fs::path outer = existing; outer.has_relative_path(); outer = outer.parent_path()) {
    const auto run = outer.parent_path();
    const bool is_run =
        fs::exists(run / mark_name, error) ||
        (fs::exists(run / "config.yaml", error) && fs::exists(run / "history.json", error));
    if (is_run && is_own_name(outer.filename().string()))
      refuse_path(path, run, "is another run's folder, and this would be inside of what it writes");
  }
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    if (error && error != std::errc::not_a_directory) refuse_path(path, existing, error.message());
    existing = existing.parent_path();
  }
  if (!fs::is_directory(existing)) refuse_path(path, existing, "is not a folder");
  require_room_to_write(path, existing);
}

void RunFolder::require_writable_checkpoints() const {
  std::error_code error;
  const auto status = fs::status(checkpoints(), error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) refuse_path(path, checkpoints(), "is not a folder");
  require_room_to_write(path, checkpoints());
}

void RunFolder::require_no_folders_as_files() const {
  for (const auto& file : {config(), origin(), log(), history(), model(), timeline()}) {
    std::error_code error;
    if (fs::is_directory(file, error))
      refuse_path(path, file, "is a folder, and a run writes a file of that name");
  }
}

bool RunFolder::make() const {
  fs::create_directories(path);
  // Locks, and what tells whether a folder can be written, don't count.
  const bool is_new =
      names_in(path, [](std::string_view name) { return !name.starts_with(".kolo"); }).empty();
  if (!is_new || fs::exists(mark())) return false;
  write_file_atomically(mark(), "This folder was made by kolo.\n");
  return true;
}

bool RunFolder::holds_own_names() const {
  return fs::is_directory(path) && !entries_in_the_way().empty();
}

std::vector<std::string> RunFolder::entries_in_the_way() const {
  auto names = names_in(path, is_run_name);
  std::erase_if(names, [&](const std::string& name) {
    return fs::is_directory(path / name) && fs::is_empty(path / name);  // checkpoints, say, a link
  });
  return names;
}

void RunFolder::require_replaceable() const {
  if (!holds_own_names()) return;
  const bool has_run = holds_a_run();
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format(
        "output folder {} {}, but {}; choose another folder with --output DIR{}", path.string(),
        has_run ? "holds an earlier run, which would be moved aside"
                : fmt::format("holds {}, which would be overwritten or taken for this run's",
                              join_first(entries_in_the_way())),
        why, has_run ? ", go on with that run with --resume, or move it yourself" : ""));
  };
  const bool is_marked = fs::exists(mark());
  if (!has_run && !is_marked) refuse("the folder was not made by kolo");
  if (fs::is_symlink(path)) refuse("it is a link");
  const auto inside = fs::current_path().lexically_relative(fs::canonical(path));
  if (!inside.empty() && *inside.begin() != "..") refuse("it is the folder that you are in");
  const auto others = names_in(path, [](std::string_view name) { return !is_own_name(name); });
  if (!is_marked && !others.empty())
    refuse(fmt::format("it was not made by kolo: it also holds {}", join_first(others)));
  if (const auto found = holder_below(path)) {
    throw InputError(
        fmt::format("output folder {} holds an earlier run, which would be moved aside, but {} in "
                    "it is in use by {}; wait for it, or choose another folder with --output DIR",
                    path.string(), found->first.string(), found->second.describe()));
  }
  (void)free_name();
}

fs::path RunFolder::free_name() const {
  return next_free(path.has_filename() ? path : path.parent_path());  // without a slash
}

fs::path RunFolder::move_aside() const {
  remove_leftovers();
  auto moved = free_name();
  rename_durably(path.has_filename() ? path : path.parent_path(), moved);
  return moved;
}

void RunFolder::remove_leftovers() const {
  for (const auto& entry : entries_in(path)) {
    const auto name = entry.filename().string();
    const bool is_ours =
        is_unfinished_file(name, ".curves.part") || is_unfinished_file(name, mark_name) ||
        name == ".curves.part" ||
        std::ranges::any_of(run_names, [&](auto own) { return is_unfinished_file(name, own); });
    if (is_ours && fs::is_regular_file(fs::symlink_status(entry))) fs::remove(entry);
  }
}

void RunFolder::remove_timelines_of_ranks() const {
  if (!fs::is_directory(timelines_of_ranks())) return;
  for (const auto& name : names_in(timelines_of_ranks(), is_timeline_of_rank))
    fs::remove(timelines_of_ranks() / name);
  if (fs::is_empty(timelines_of_ranks())) fs::remove(timelines_of_ranks());
}

void RunFolder::keep_records_of_attempt() const {
  const auto records = names_in(path, [](std::string_view name) {
    return name == "history.json" || name.starts_with(event_file_prefix);
  });
  if (records.empty()) return;
  const auto kept = next_free(path / attempt_prefix.substr(0, attempt_prefix.size() - 1));
  fs::create_directory(kept);
  for (const auto& name : records) rename_durably(path / name, kept / name);
}

namespace {

// Commit of the current directory; empty without git or a repository.
std::string commit_here() {
  constexpr std::chrono::seconds patience{10};  // on a busy file system
  const auto git = find_in_path("git");
  if (git.empty()) return {};
  const auto answer = probe(
      {.argv = {git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"}}, patience);
  return answer.status == 0 ? first_line_of(answer.output) : std::string();
}

using Json = nlohmann::ordered_json;

// Member of this name and kind in a run.json; empty where it can't be read.
Json member_of(const fs::path& file, const char* name, Json::value_t kind) {
  if (!fs::exists(file)) return kind;
  const auto document = Json::parse(read_text_file(file), nullptr, false);
  const bool is_sound =
      document.is_object() && document.contains(name) && document[name].type() == kind;
  return is_sound ? document[name] : Json(kind);
}

}  // namespace

RunOrigin find_run_origin() {
  std::error_code error;
  return {.command = environment_variable(command_variable).value_or(as_typed(own_words())),
          .directory = fs::current_path(error).string(),
          .commit = commit_here(),
          .version = KOLO_VERSION,
          .host = host_name(),
          .machine = {},
          .program = fs::read_symlink("/proc/self/exe", error)};
}

std::string as_typed(std::vector<std::string> words) {
  if (!words.empty()) words[0] = fs::path(words[0]).filename();
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%";
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += ' ';
    const bool is_plain = !word.empty() && word.find_first_not_of(plain) == std::string::npos;
    text += is_plain ? word : shell_word(word);
  }
  return text;
}

void note_run_start(const fs::path& file, const RunOrigin& origin, std::int64_t from_step,
                    const std::vector<std::string>& class_names, const SampleLayout& layout) {
  Json document{{"starts", member_of(file, "starts", Json::value_t::array)}};
  document["starts"].push_back({{"from_step", from_step},
                                {"time", format_moment(wall_time())},
                                {"command", origin.command},
                                {"directory", origin.directory},
                                {"commit", origin.commit},
                                {"version", origin.version},
                                {"host", origin.host},
                                {"machine", origin.machine},
                                {"program", origin.program},
                                {"own_parts", origin.own_components}});
  if (!class_names.empty()) document["class_names"] = class_names;
  document["sample"] = {{"input_shape", layout.input_shape},
                        {"classes", layout.classes},
                        {"target_shape", layout.target_shape},
                        {"input_parts", layout.input_shapes},
                        {"target_parts", layout.target_shapes}};
  // A command line and a folder's name may hold any bytes.
  constexpr auto replace = Json::error_handler_t::replace;
  write_file_atomically(file, document.dump(2, ' ', false, replace) + "\n");
}

std::vector<std::string> recorded_class_names(const fs::path& file) {
  std::vector<std::string> names;
  for (const auto& name : member_of(file, "class_names", Json::value_t::array))
    if (name.is_string()) names.push_back(name);
  return names;
}

RunOrigin read_run_origin(const fs::path& file) {
  const auto starts = member_of(file, "starts", Json::value_t::array);
  RunOrigin origin;
  try {
    if (starts.empty()) return origin;
    origin.program = starts.back().value("program", "");
    origin.own_components = starts.back().value("own_parts", origin.own_components);
    return origin;
  } catch (const Json::exception&) {
    return {};
  }
}

std::optional<SampleLayout> recorded_layout(const fs::path& file) {
  const auto sample = member_of(file, "sample", Json::value_t::object);
  try {
    return SampleLayout{sample.at("input_shape"), sample.at("classes"), sample.at("target_shape"),
                        sample.at("input_parts"), sample.at("target_parts")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void log_run_start(RunLog& log, const RunOrigin& origin) {
  constexpr std::size_t short_hash = 12;
  const auto is_dirty = origin.commit.ends_with("-dirty");
  log.info("{} (kolo {} on {}{}{})", origin.command, origin.version, origin.host,
           origin.commit.empty() ? "" : ", git " + origin.commit.substr(0, short_hash),
           is_dirty ? " with changes" : "");
}

}  // namespace kolo
