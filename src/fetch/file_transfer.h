#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

// What is done to one file, by packages that not every kolo is built with (KOLO_FETCH): it is
// downloaded, its sum is formed, and it is unpacked.
namespace kolo {

struct Download {
  std::string url;
  std::filesystem::path file;  // what is in it already is taken for the beginning
  std::int64_t bytes = 0;      // the whole size; more is not accepted
  std::function<void(std::int64_t done)> progress;
  std::function<void(const std::string&)> notice;
  std::chrono::milliseconds pause{1000};  // before a second try without a byte; doubles
};

// Fetches what is missing of the file; goes on by itself after a cut connection, as long as some
// more comes. Returns how many bytes came. Error with the address and the reason; InputError for an
// address that is none.
std::int64_t download(const Download& request);

// A file's MD5 sum (RFC 1321) as 32 lower-case hexadecimal digits. Against accidents, not attacks.
[[nodiscard]] std::string md5_of_file(const std::filesystem::path& path);

// Unpacks the files of a tar archive, plain or gzip, that are directly in its folder `folder`, into
// `target`. Error for anything else in it but folders, for what is damaged, and for more than 4 GiB
// in all.
void unpack(const std::filesystem::path& archive, const std::string& folder,
            const std::filesystem::path& target);

}  // namespace kolo
