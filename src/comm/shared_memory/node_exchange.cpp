#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "comm/shared_memory/elements.h"
#include "comm/shared_memory/node_group.h"
#include "kolo/base/error.h"

// The collectives of a node in which every rank has counts of its own. The counts come first, as
// rows of numbers in the staging areas (whose halves hold at least 64 bytes a rank), so that all
// ranks see all of them: they find the same mismatch, and go through the same number of rounds.
namespace kolo {

namespace {

constexpr DataType count_type = DataType::int64;

std::int64_t number_at(const std::byte* row, int index) {
  std::int64_t number = 0;
  std::memcpy(&number, at(row, index, count_type), sizeof(number));
  return number;
}

void write_row(std::byte* row, std::span<const std::int64_t> counts) {
  std::memcpy(row, counts.data(), counts.size_bytes());
}

std::vector<std::int64_t> starts_of(std::span<const std::int64_t> counts) {
  std::vector<std::int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::int64_t{0});
  return starts;
}

// What is left from `offset` on, at most a piece; 0 or less where nothing is.
std::int64_t piece_of(std::int64_t count, std::int64_t offset, std::int64_t piece) {
  return std::min(piece, count - offset);
}

}  // namespace

void NodeGroup::all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                                  std::span<const std::int64_t> counts) {
  begin(announce(Collective::all_gather_uneven, output, 0));
  ++half_;
  write_row(staged(rank_), counts);
  meet();
  check_announcements();
  check_same_counts();
  const DataType type = input.type;
  const auto starts = starts_of(counts);
  const std::int64_t chunk = staged_elements(type);
  const std::int64_t largest = *std::max_element(counts.begin(), counts.end());
  for (std::int64_t offset = 0; offset < largest; offset += chunk) {
    ++half_;
    copy(staged(rank_), at(input.data, offset, type), piece_of(input.count, offset, chunk), type);
    meet();
    for (int peer = 0; peer < size_; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      copy(at(output.data, starts[index] + offset, type), staged(peer),
           piece_of(counts[index], offset, chunk), type);
    }
  }
}

void NodeGroup::check_same_counts() const {
  for (int peer = 1; peer < size_; ++peer) {
    for (int owner = 0; owner < size_; ++owner) {
      const auto first = number_at(staged(0), owner), other = number_at(staged(peer), owner);
      if (first == other) continue;
      throw Error(fmt::format(
          "comm: uneven all-gather: local rank 0 has count {} for local rank {}, local rank {} has "
          "{}; all ranks must pass the same counts, for example from an all-gather of their own",
          first, owner, peer, other));
    }
  }
}

void NodeGroup::all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                           const Buffer& output, std::span<const std::int64_t> receive_counts) {
  // How much a rank sends in all is its own affair.
  begin(announce(Collective::all_to_all, ConstBuffer(nullptr, 0, input.type), 0));
  ++half_;
  write_row(staged(rank_), send_counts);
  write_row(at(staged(rank_), size_, count_type), receive_counts);
  meet();
  check_announcements();
  const std::int64_t largest = check_pairs(input.type);
  const DataType type = input.type;
  const auto send_starts = starts_of(send_counts), receive_starts = starts_of(receive_counts);
  const std::int64_t piece = staged_elements(type) / size_;
  for (std::int64_t offset = 0; offset < largest; offset += piece) {
    ++half_;
    for (int peer = 0; peer < size_; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      copy(at(staged(rank_), peer * piece, type), at(input.data, send_starts[index] + offset, type),
           piece_of(send_counts[index], offset, piece), type);
    }
    meet();
    for (int peer = 0; peer < size_; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      copy(at(output.data, receive_starts[index] + offset, type),
           at(staged(peer), rank_ * piece, type), piece_of(receive_counts[index], offset, piece),
           type);
    }
  }
}

// Returns the most that any rank sends to any.
std::int64_t NodeGroup::check_pairs(DataType type) const {
  std::int64_t largest = 0;
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      const auto sent = number_at(staged(from), to);
      const auto expected = number_at(staged(to), size_ + from);
      if (sent != expected) {
        throw Error(
            fmt::format("comm: all-to-all: local rank {} sends {} {} to local rank {}, which "
                        "expects {}; receive_counts[r] must be what rank r sends, for example "
                        "from an all-to-all of the counts",
                        from, sent, name_of(type), to, expected));
      }
      largest = std::max(largest, sent);
    }
  }
  return largest;
}

}  // namespace kolo
