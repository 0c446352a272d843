#pragma once

#include <cstdint>
#include <filesystem>

// Merging of the ranks' timelines; without LibTorch.
namespace kolo {

struct MergedTimelines {
  int files = 0;
  std::int64_t events = 0;
  std::int64_t damaged = 0;  // events cut off where a rank was killed, left out
};

// Makes one file of the ranks' files in a folder (rank-*.json): complete JSON, which appears under
// its name when it is whole. Files of killed or running ranks are fine. Reads line by line.
// InputError: the folder holds no such files.
MergedTimelines merge_timelines(const std::filesystem::path& folder,
                                const std::filesystem::path& output);

}  // namespace kolo
