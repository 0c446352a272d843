#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kolo/checkpoint/checkpoint_store.h"

namespace kolo {

// The folder of a run: config.yaml, run.json, out.log, history.json, events.out.tfevents.*, model.txt,
// checkpoints/, and timeline.json where one was asked for.
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

  [[nodiscard]] CheckpointStore checkpoint_store(std::int64_t keep) const;

  [[nodiscard]] bool holds_a_run() const;
  // One that can be used; damaged ones are none.
  [[nodiscard]] bool holds_checkpoint() const;

  // InputError when the folder can't be made or written. Makes nothing.
  void require_writable() const;

  // Makes the folder where it is missing, and marks one that is new or empty as made by kolo.
  void make() const;

  // InputError when a new run would move or overwrite what kolo did not make.
  void require_replaceable() const;

  // Renames the folder to PATH.1 (or .2, ...), because nothing is ever overwritten. Returns its new
  // name.
  [[nodiscard]] std::filesystem::path move_aside() const;

  // Removes what a killed run was writing aside. Nobody may be writing there.
  void remove_leftovers() const;

  // Keeps the config.yaml that is there as config.1.yaml (or .2, ...); its new name.
  [[nodiscard]] std::filesystem::path keep_config() const;

 private:
  [[nodiscard]] std::filesystem::path mark() const { return path / ".kolo-run"; }
  [[nodiscard]] std::vector<std::string> entries_of_others() const;
};

}  // namespace kolo
