#pragma once

#include <filesystem>
#include <string>

namespace kolo {

// A file's MD5 sum (RFC 1321) as 32 lower-case hexadecimal digits. Against accidents, not attacks.
[[nodiscard]] std::string md5_of_file(const std::filesystem::path& path);

}  // namespace kolo
