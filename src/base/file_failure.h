#pragma once

#include <filesystem>
#include <string>

// kolo's words for what the standard library's functions for files throw: where a file or folder is
// only looked at, its name may be one that the system refuses.
namespace kolo {

// "files: cannot look at PATH: File name too long; a name may have 255 bytes, ..."
[[nodiscard]] std::string describe(const std::filesystem::filesystem_error& failure);

// Tells whether the path itself is wrong, as users give it: a name that nothing can have, or that
// leads nowhere.
[[nodiscard]] bool is_of_the_name(const std::filesystem::filesystem_error& failure);

}  // namespace kolo
