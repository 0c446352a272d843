#pragma once

#include <filesystem>
#include <string>

// What the standard library's functions for files throw, as kolo says it: where a file or folder is
// only looked at, its name may be one that the system refuses.
namespace kolo {

// "files: cannot look at PATH: File name too long; a name may have 255 bytes, ..."
[[nodiscard]] std::string describe(const std::filesystem::filesystem_error& failure);

// Whether it is a name that nothing can have, or that leads nowhere: as users give them.
[[nodiscard]] bool is_of_the_name(const std::filesystem::filesystem_error& failure);

}  // namespace kolo
