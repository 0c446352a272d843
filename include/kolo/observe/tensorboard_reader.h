#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kolo {

// One value of one scalar.
struct ScalarEvent {
  std::string tag;  // UTF-8; what is none is replaced by U+FFFD
  std::int64_t step = 0;
  double time = 0;   // seconds since 1970
  double value = 0;  // most writers store single precision
};

// "What was written so far about `step` and later ones is void": a run begins there, or goes on
// from a checkpoint.
struct EventRestart {
  std::size_t position = 0;  // how many of the file's scalars come before it
  std::int64_t step = 0;
};

// What an event file says.
struct EventFile {
  std::vector<ScalarEvent> scalars;  // all, in the file's order; restarts are not applied
  std::vector<EventRestart> restarts;
  std::int64_t other_values = 0;  // histograms, images, texts: not kept
  // Empty: the file is whole. Else from which byte on it can't be read, and why. What comes before
  // is in `scalars`. A file that is still being written may end like this, as one whose writer was
  // killed does.
  std::string damage;
};

// Reads an event file, whoever wrote it: TensorFlow 1 and 2, PyTorch, tensorboardX, kolo. Scalars
// are single values, and tensors of one float32, float64, int32 or int64. Format: see
// TensorBoardWriter.
//
// Memory: the scalars, and one record, of at most the file's size. Time: a second for 200 MB, or
// three million scalars.
//
// InputError, naming the file: there is none, it can't be read, it is empty or not even its first
// record is an event's.
[[nodiscard]] EventFile read_event_file(const std::filesystem::path& path);

// What holds of a folder's event files, given in the order of their names: restarts void earlier
// values of all of them, as TensorBoard has it.
[[nodiscard]] std::vector<ScalarEvent> scalars_in_effect(std::span<const EventFile> files);

}  // namespace kolo
