#pragma once

#include <filesystem>
#include <string_view>

namespace kolo {

// What AtomicFile (file.h) calls a file as long as it is not whole: FILE.PROCESS.part.
[[nodiscard]] std::filesystem::path part_file(const std::filesystem::path& file);

// Whether a name is that of such a part of `file`, of whatever process: one that was killed has
// left it.
[[nodiscard]] bool is_part_file(std::string_view name, std::string_view file);

}  // namespace kolo
