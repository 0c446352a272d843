#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

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

}  // namespace kolo
