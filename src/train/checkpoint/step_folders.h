#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The folders of checkpoints: their names, and their ends.
namespace kolo {

struct StepFolder {
  std::filesystem::path path;
  std::int64_t step = 0;
  bool is_replaced = false;
};

// "step-NNNNNNNN"
[[nodiscard]] std::string step_name(std::int64_t step);
// The same while a newer one of the same step takes its place. It counts as a checkpoint, so that a
// crash between the two renames leaves one that is found.
[[nodiscard]] std::string replaced_name(std::int64_t step);
// ".step-NNNNNNNN.part", while it is written
[[nodiscard]] std::string aside_name(std::int64_t step);

// Of "step-NNNNNNNN" or "step-NNNNNNNN.replaced"; nullopt for every other name.
[[nodiscard]] std::optional<StepFolder> parse_folder(const std::filesystem::path& path);

// Newest first; of one step, the one that replaces before the one being replaced.
[[nodiscard]] std::vector<StepFolder> step_folders(const std::filesystem::path& parent);

// Nothing but what save() has written is ever removed: a checkpoint's own files, and then their
// folder, unless something of somebody else's lies in it. The manifest goes last, so that what a
// crash leaves is still known for what it is.
void remove_own_files(const std::filesystem::path& folder);

// A step folder that this program has not made, as its manifest tells, stays as it is.
void remove_checkpoint(const std::filesystem::path& path);

// What lies in the way of a checkpoint and is none keeps its contents, as step-00000025.1 and so
// on.
void move_out_of_the_way(const std::filesystem::path& path);

// What an interrupted save left: folders made aside, and folders being replaced.
void remove_leftovers(const std::filesystem::path& parent);

}  // namespace kolo
