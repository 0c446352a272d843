#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace kolo {

// kolo's words for exceptions of the standard library's functions for files: where a file or folder
// is only looked at, its name may be one that the system refuses.

// "files: cannot look at PATH: File name too long; a name may have 255 bytes, ..."
[[nodiscard]] std::string describe(const std::filesystem::filesystem_error& failure);

// Tells whether the path itself is wrong, as users give it: a name that nothing can have, or that
// leads nowhere.
[[nodiscard]] bool is_of_the_name(const std::filesystem::filesystem_error& failure);

// The limit of a file's size that a process may have (ulimit -f, RLIMIT_FSIZE). It also holds for
// memory that processes share, as that is a file, too.

// Bytes; nothing: files may be as large as the file system lets them.
[[nodiscard]] std::optional<std::uint64_t> file_size_limit();

// "files of this process may not be larger than 512000 bytes (ulimit -f)". Shells count in units of
// their own.
[[nodiscard]] std::string describe_file_size_limit(std::uint64_t limit);

// Advice that follows the reason of a failed call, where that is the limit, or the file system's
// own. Empty for all other values of errno.
[[nodiscard]] std::string advice_on_file_size(int error_number);

}  // namespace kolo
