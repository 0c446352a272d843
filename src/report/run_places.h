#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/event_folder.h"

namespace kolo {

// Where a run lies.
struct RunPlace {
  std::filesystem::path root;
  std::filesystem::path history;     // kolo's, or empty: then
  std::vector<EventFolder> folders;  // it has event files
};

// The runs in a folder and below it, to some depth, in the order of their paths; links to folders
// are not followed. Folders named train, validation and so on belong to the run that they lie in,
// as Keras has it, and so do those that PyTorch's add_scalars makes. Reads the event files.
// InputError: the only ones there can't be read; says why.
[[nodiscard]] std::vector<RunPlace> runs_below(const std::filesystem::path& folder);

inline constexpr int deepest_run = 6;

}  // namespace kolo
