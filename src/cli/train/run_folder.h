#pragma once

#include <filesystem>
#include <optional>

#include "kolo/checkpoint/checkpoint_store.h"

namespace kolo {

// The folder of a run: config.yaml, out.log, history.json, events.out.tfevents.*, model.txt,
// checkpoints/, and timeline.json where one was asked for.
struct RunFolder {
  std::filesystem::path path;

  [[nodiscard]] std::filesystem::path config() const { return path / "config.yaml"; }
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

  // Makes the folder, empty of runs: one that holds a run is renamed to PATH.1 (or .2, ...),
  // because nothing is ever overwritten. Returns its new name.
  [[nodiscard]] std::optional<std::filesystem::path> prepare() const;
};

}  // namespace kolo
