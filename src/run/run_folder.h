#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kolo/train/observe/run_log.h"

namespace kolo {

class CheckpointStore;

// Folder of a run: config.yaml, run.json, out.log, history.json, events.out.tfevents.*, model.txt,
// checkpoints/, and timeline.json where one was asked for. What kolo did not make is never removed
// or overwritten; an earlier run is moved aside with its folder, which has kolo's mark.
struct RunFolder {
  std::filesystem::path path;

  [[nodiscard]] std::filesystem::path config() const { return path / "config.yaml"; }
  [[nodiscard]] std::filesystem::path origin() const { return path / "run.json"; }
  [[nodiscard]] std::filesystem::path log() const { return path / "out.log"; }
  [[nodiscard]] std::filesystem::path history() const { return path / "history.json"; }
  [[nodiscard]] std::filesystem::path model() const { return path / "model.txt"; }
  [[nodiscard]] std::filesystem::path timeline() const { return path / "timeline.json"; }
  [[nodiscard]] std::filesystem::path timelines_of_ranks() const { return path / "timeline"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path / "checkpoints"; }

  // `keep`: matters to who writes only.
  [[nodiscard]] CheckpointStore checkpoint_store(std::int64_t keep = 1) const;

  [[nodiscard]] bool holds_a_run() const;
  // One that can be used; damaged ones are none. `problems` is told what is wrong with those. Reads
  // all of the newest, but keeps nothing of it.
  [[nodiscard]] bool holds_checkpoint(const std::function<void(const std::string&)>& problems =
                                          [](const std::string&) {}) const;
  // Whether there is anything that is called like one.
  [[nodiscard]] bool holds_step_folder() const;

  // InputError when the folder can't be made or written, or has no place for a run: the root of the
  // file system, and what is inside of the files of another run. Makes nothing.
  void require_writable() const;
  // The same of its checkpoints/, where there is one that the run will write to.
  void require_writable_checkpoints() const;
  // The same of the files that a run writes there: a folder may not have the name of one.
  void require_no_folders_as_files() const;

  // Makes the folder where it is missing, and marks one that is new or empty as made by kolo.
  // Returns whether it has marked it.
  bool make() const;
  void remove_mark() const;

  // Whether anything there is called like a file of a run, whole or not. An empty folder is
  // nothing.
  [[nodiscard]] bool holds_own_names() const;

  // InputError when a new run would move or overwrite what kolo did not make, or move a run that is
  // under way in a folder below.
  void require_replaceable() const;

  // Renames the folder to PATH.1 (or .2, ...), because nothing is ever overwritten. Returns its new
  // name.
  [[nodiscard]] std::filesystem::path move_aside() const;

  // Removes what a killed run was writing aside. Nobody may be writing there.
  void remove_leftovers() const;

  // Removes the ranks' own files of a timeline, which has been merged, or is to be recorded anew.
  void remove_timelines_of_ranks() const;

  // Moves what an attempt that came to no checkpoint has recorded into attempt.1 (or .2, ...), so
  // that the next one begins with nothing. Nobody may be writing there.
  void keep_records_of_attempt() const;

  // Keeps the config.yaml that is there as config.1.yaml (or .2, ...); its new name.
  [[nodiscard]] std::filesystem::path keep_config() const;

 private:
  [[nodiscard]] std::filesystem::path mark() const;
  [[nodiscard]] std::vector<std::string> entries_of_others() const;
  [[nodiscard]] std::vector<std::string> entries_in_the_way() const;
  void require_no_run_below() const;
  [[nodiscard]] std::filesystem::path place_aside() const;
};

// Where a run comes from, so that it can be done again: what was typed, where, with which kolo and
// which sources.
struct RunOrigin {
  std::string command;    // as a shell takes it
  std::string directory;  // that it was typed in
  std::string commit;     // of git there, "-dirty" after it where files differ; empty: none
  std::string version;    // kolo's
  std::string host;
};

// In which the ranks find what was typed: their own command lines are kolo's, where it has started
// them again.
inline constexpr const char* command_variable = "KOLO_COMMAND";

// A command's words as they were typed, as a shell takes them: the program by its name.
[[nodiscard]] std::string as_typed(std::vector<std::string> words);

// Of this process, or of the one that has started the ranks. Asks git, in a process of its own:
// call it before MPI is there.
[[nodiscard]] RunOrigin find_run_origin();

// Adds a start to the file, run.json: {"starts": [{from_step, time, command, directory, commit,
// version, host}]}, the first one first. Replaces a file that can't be read.
void note_run_start(const std::filesystem::path& file, const RunOrigin& origin,
                    std::int64_t from_step);

void log_run_start(RunLog& log, const RunOrigin& origin);

}  // namespace kolo
