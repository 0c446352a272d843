#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

// A checkpoint in several files, which several ranks write at the same time: each tensor is whole
// in one of them.
namespace kolo {

// Of how many bytes a shard is where their number is chosen: large enough that a file system is
// busy with it for a while.
inline constexpr std::uint64_t bytes_of_a_shard = 256 << 20;
inline constexpr int most_shards = 99'999;  // as many as file names have digits for

// One for every bytes_of_a_shard, at most one per rank; at least 1.
[[nodiscard]] int choose_shards(std::uint64_t bytes, int ranks);

// Which shard each tensor goes to, by bytes: the largest first, each to the shard that has least so
// far. `first`: what shard 0 has besides. A pure function, so that all writers share out alike.
[[nodiscard]] std::vector<int> plan_shards(std::span<const std::uint64_t> bytes, int shards,
                                           std::uint64_t first = 0);

// One of the processes that write a checkpoint together.
struct ShardWriter {
  int index = 0;  // 0 makes the folder, and the manifest when all others are done
  int count = 1;
  // Gives every writer all writers' texts, in their order. Called by the thread that saves, as
  // often on each. Not called of one writer.
  std::function<std::vector<std::string>(const std::string&)> exchange = {};
};

}  // namespace kolo
