#pragma once

#include <cstdint>
#include <optional>
#include <string>

// The limit of a file's size that a process may have (ulimit -f, RLIMIT_FSIZE). It also holds for
// memory that processes share, as that is a file, too.
namespace kolo {

// Bytes; nothing: files may be as large as the file system lets them.
[[nodiscard]] std::optional<std::uint64_t> file_size_limit();

// "files of this process may not be larger than 512000 bytes (ulimit -f)". Shells count in units of
// their own.
[[nodiscard]] std::string describe_file_size_limit(std::uint64_t limit);

// Advice that follows the reason of a failed call, where that is the limit, or the file system's
// own. Empty for all other values of errno.
[[nodiscard]] std::string advice_on_file_size(int error_number);

}  // namespace kolo
