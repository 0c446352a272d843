#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// What a command writes where --output says: how its name may end, and how an older one is known,
// which may be replaced.
struct OutputKind {
  std::string name;                  // "a page of kolo report"
  std::vector<std::string> endings;  // ".html"; a name may also have none
  std::function<bool(const std::filesystem::path&)> is_one;
};

// InputError unless the name ends as such a file's does, or without an ending: nobody expects HDF5
// in a .npy file. What has no letter is no ending (box-0.5). `what` names
// the command and option: "timeline: --output".
void require_ending(std::string_view what, const std::filesystem::path& file,
                    const OutputKind& kind);

// InputError unless a file of this kind can be written there, before any work is done for it: the
// name's ending is right, the folder is there and can be written, and what would be replaced is an
// older file of this kind, or empty.
void require_writable(std::string_view what, const std::filesystem::path& file,
                      const OutputKind& kind);

// InputError unless files can be written in this folder, which may have to be made first.
void require_writable_folder(std::string_view what, const std::filesystem::path& folder);

}  // namespace kolo
