#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kolo/data/dataset.h"
#include "kolo/train/observe/run_log.h"

namespace kolo {

class CheckpointStore;

// Folder of a run: config.yaml, run.json, out.log, history.json, events.out.tfevents.*, model.txt,
// checkpoints/, timeline.json. Files that kolo did not make are never removed or overwritten; an
// earlier run is moved aside with its folder, which has kolo's mark.
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

  // `keep` matters only to writers.
  [[nodiscard]] CheckpointStore checkpoint_store(std::int64_t keep = 1) const;

  [[nodiscard]] bool holds_a_run() const;
  // Tells whether there is an undamaged checkpoint, reading it whole. `problems` is told what is
  // wrong with damaged ones.
  [[nodiscard]] bool holds_checkpoint(const std::function<void(const std::string&)>& problems =
                                          [](const std::string&) {}) const;
  // Tells whether any folder has a checkpoint's name.
  [[nodiscard]] bool holds_step_folder() const;

  // InputError when the folder can't be made or written, is the root of the file system, or lies
  // among the files of another run. Makes nothing.
  void require_writable() const;
  // The same for an existing checkpoints/.
  void require_writable_checkpoints() const;
  // InputError when a folder has the name of a file that a run writes.
  void require_no_folders_as_files() const;

  // Makes a missing folder, and marks a new or empty one as made by kolo. Returns whether it did.
  bool make() const;
  // Marker file: kolo made this folder. Users may delete it.
  [[nodiscard]] std::filesystem::path mark() const;

  // Tells whether any file, or folder that isn't empty, has the name of a run's.
  [[nodiscard]] bool holds_own_names() const;

  // InputError when a new run would move or overwrite files that kolo did not make, or move a run
  // that is under way in a folder below.
  void require_replaceable() const;

  // Renames the folder to PATH.1 (or .2, ...). Returns its new name.
  [[nodiscard]] std::filesystem::path move_aside() const;

  // Removes partial files of a killed run. Nobody may be writing there.
  void remove_leftovers() const;

  // Removes the ranks' own files of a timeline that was merged, or will be recorded anew.
  void remove_timelines_of_ranks() const;

  // Moves the records of an attempt without a checkpoint into attempt.1 (or .2, ...), so that the
  // next one begins without any. Nobody may be writing there.
  void keep_records_of_attempt() const;

 private:
  [[nodiscard]] std::vector<std::string> entries_in_the_way() const;
  [[nodiscard]] std::filesystem::path free_name() const;
};

// Origin of a run, for repeating it.
struct RunOrigin {
  std::string command;    // as typed into a shell
  std::string directory;  // in which it was typed
  std::string commit;     // git's there, with "-dirty" where files differ; empty: none
  std::string version;    // kolo's
  std::string host;
  std::string machine;                      // its processors and GPUs (describe_machine())
  std::string program;                      // its file
  std::vector<std::string> own_components;  // own_components() of it that the run uses
};

// Variable that tells restarted ranks the command that was typed.
inline constexpr const char* command_variable = "KOLO_COMMAND";

// Command line of these words for a shell, with the program's name instead of its path.
[[nodiscard]] std::string as_typed(std::vector<std::string> words);

// Origin of this process, or of the one that has started the ranks. Call it before MPI is
// initialized: it starts git.
[[nodiscard]] RunOrigin find_run_origin();

// Appends a start to run.json: {"starts": [{from_step, time, command, directory, commit, version,
// host, machine, program, own_parts}], "class_names": [...], "sample": {...}}; without
// "class_names" where the data has none. Replaces a file that can't be read.
void note_run_start(const std::filesystem::path& file, const RunOrigin& origin,
                    std::int64_t from_step, const std::vector<std::string>& class_names,
                    const SampleLayout& layout);

// Class names in a run.json; none where it is missing or has none.
[[nodiscard]] std::vector<std::string> recorded_class_names(const std::filesystem::path& file);
// Layout of the training's samples in a run.json; nothing where it is missing or has none.
[[nodiscard]] std::optional<SampleLayout> recorded_layout(const std::filesystem::path& file);

// Program and own parts of the newest start in a run.json; empty where it tells of none.
[[nodiscard]] RunOrigin read_run_origin(const std::filesystem::path& file);

void log_run_start(RunLog& log, const RunOrigin& origin);

}  // namespace kolo
