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

// What follows the reason of a failed call, where that is the limit, or the file system's own: what
// it is and what to do. Empty for all other values of errno.
[[nodiscard]] std::string advice_on_file_size(int error_number);

// InputError where `limit` leaves no room for the files in which MPI's processes on a machine
// share memory: MPI would end the program, or never begin. `subsystem` begins the message,
// `way_out` ends it: "start one rank, without -n".
void require_room_for_shared_memory(const std::string& subsystem,
                                    std::optional<std::uint64_t> limit, const std::string& way_out);

}  // namespace kolo
