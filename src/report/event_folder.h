#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kolo/observe/tensorboard_reader.h"

namespace kolo {

// The event files of one folder, or some of them.
struct EventFolder {
  std::filesystem::path path;
  std::string part;          // training | validation, of a run that keeps a folder for each
  std::string added_to_tag;  // "/train": of add_scalars, which keeps a folder for each of its lines
  std::vector<ScalarEvent> scalars;   // those in effect
  std::vector<std::string> warnings;  // what could not be read
};

// The files named *tfevents* in a folder itself, in the order of their names.
[[nodiscard]] std::vector<std::filesystem::path> event_files_in(
    const std::filesystem::path& folder);

// InputError: none of the files can be read; says why of the first.
[[nodiscard]] EventFolder read_event_folder(const std::filesystem::path& folder,
                                            std::span<const std::filesystem::path> files);

}  // namespace kolo
