#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "comm/shared_memory/node_group.h"
#include "comm/shared_memory/reduce_kernels.h"
#include "kolo/base/error.h"

// The collectives of a node, but for all-reduce, which has a file of its own. A staging half that
// is filled before a meeting is read after it, and filled again only after one more meeting, to
// which nobody comes before having read: so the two halves, used in turn, need one meeting a chunk.
namespace kolo {

void NodeGroup::execute(const CollectiveCall& call) {
  switch (call.collective) {
    case Collective::all_reduce:
      return all_reduce(call, size_, nullptr);
    case Collective::broadcast:
      return broadcast(call);
    case Collective::all_gather:
      return all_gather(call);
    case Collective::all_gather_uneven:
      return all_gather_uneven(call);
    case Collective::reduce_scatter:
      return reduce_scatter(call);
    case Collective::all_to_all:
      return all_to_all(call);
    default:  // a barrier
      return agree(call);
  }
}

void NodeGroup::broadcast(const CollectiveCall& call) {
  const Buffer& buffer = call.output;
  const int root = call.peer;
  agree(call);
  const std::int64_t chunk = staged_elements(buffer.type);
  for (std::int64_t offset = 0; offset < buffer.count; offset += chunk) {
    const auto count = std::min(chunk, buffer.count - offset);
    std::byte* const mine = at(buffer.data, offset, buffer.type);
    ++half_;
    if (rank_ == root) copy(staged(root), mine, count, buffer.type);
    meet();
    if (rank_ != root) copy(mine, staged(root), count, buffer.type);
  }
}

void NodeGroup::all_gather(const CollectiveCall& call) {
  agree(call);
  gather_parts(call, std::vector(static_cast<std::size_t>(size_), call.input.count));
}

void NodeGroup::reduce_scatter(const CollectiveCall& call) {
  const ConstBuffer& input = call.input;
  const Buffer& output = call.output;
  begin(call, peers_->locate(input.data, input.bytes()));
  meet();
  check_announcements();
  auto* const result = static_cast<std::byte*>(output.data);
  if (all_reachable()) {
    for (int peer = 0; peer < size_; ++peer) {
      operands_[static_cast<std::size_t>(peer)] =
          at(peers_->address(peer, announcement(peer).location), rank_ * output.count, input.type);
    }
    reduce(input.type, call.op, sources(), std::span(&result, 1), output.count, call.divisor);
    meet();
    return;
  }
  // Goes by a piece of every rank's part at a time: the pieces for all ranks fit the staging area.
  const std::int64_t piece = staged_elements(input.type) / size_;
  for (std::int64_t offset = 0; offset < output.count; offset += piece) {
    const auto count = std::min(piece, output.count - offset);
    ++half_;
    for (int part = 0; part < size_; ++part) {
      copy(at(staged(rank_), part * piece, input.type),
           at(input.data, part * output.count + offset, input.type), count, input.type);
    }
    meet();
    for (int peer = 0; peer < size_; ++peer) {
      operands_[static_cast<std::size_t>(peer)] = at(staged(peer), rank_ * piece, input.type);
    }
    std::byte* const destination = at(result, offset, input.type);
    reduce(input.type, call.op, sources(), std::span(&destination, 1), count, call.divisor);
  }
}

// Collectives in which every rank has counts of its own. The counts come first, as rows of numbers
// in the staging areas (whose halves hold at least 64 bytes per rank), so that all ranks see all
// of them: they find the same mismatch, and go through the same number of rounds.
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

// Elements left from `offset` on, at most a piece; 0 or less where none are.
std::int64_t piece_of(std::int64_t count, std::int64_t offset, std::int64_t piece) {
  return std::min(piece, count - offset);
}

}  // namespace

void NodeGroup::all_gather_uneven(const CollectiveCall& call) {
  begin(call);
  ++half_;
  write_row(staged(rank_), call.receive_counts);
  meet();
  check_announcements();
  check_same_counts();
  gather_parts(call, call.receive_counts);
}

// `counts`: by local rank.
void NodeGroup::gather_parts(const CollectiveCall& call, std::span<const std::int64_t> counts) {
  const ConstBuffer& input = call.input;
  const Buffer& output = call.output;
  const DataType type = input.type;
  const auto starts = starts_of(counts);
  const std::int64_t chunk = staged_elements(type);
  const std::int64_t largest = std::ranges::max(counts);
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

void NodeGroup::all_to_all(const CollectiveCall& call) {
  const ConstBuffer& input = call.input;
  const Buffer& output = call.output;
  const auto &send_counts = call.send_counts, &receive_counts = call.receive_counts;
  begin(call);
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
