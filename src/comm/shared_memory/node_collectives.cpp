#include <algorithm>

#include "comm/shared_memory/elements.h"
#include "comm/shared_memory/node_group.h"
#include "comm/shared_memory/reduce_kernels.h"

// The collectives of a node. A staging half that is filled before a meeting is read after it, and
// filled again only after one more meeting, to which nobody comes before having read: so the two
// halves, used in turn, need one meeting a chunk; two where the others also write into a half.
namespace kolo {

namespace {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

// Part `index` of `parts` of [0, count), cut at multiples of 64 elements: a cache line belongs to
// one rank.
Range slice_of(std::int64_t count, int index, int parts) {
  const auto cut = [&](std::int64_t i) {
    return i == parts
               ? count
               : std::min(count, (count / parts * i + count % parts * i / parts + 63) / 64 * 64);
  };
  return {cut(index), cut(index + 1)};
}

}  // namespace

struct NodeGroup::Reduction {
  ReduceOp op = ReduceOp::sum;
  int divisor = 1;  // of averages
  int slices = 1;
  const AcrossNodes* across = nullptr;
};

void NodeGroup::all_reduce(const Buffer& buffer, ReduceOp op, int divisor) {
  all_reduce(buffer, {op, divisor, size_, nullptr});
}

void NodeGroup::all_reduce(const Buffer& buffer, ReduceOp op, int divisor, int slices,
                           const AcrossNodes& across) {
  all_reduce(buffer, {op, divisor, slices, &across});
}

void NodeGroup::all_reduce(const Buffer& buffer, const Reduction& reduction) {
  auto mine = announce(Collective::all_reduce, buffer, static_cast<std::uint32_t>(reduction.op));
  const bool is_small = !reduction.across && buffer.bytes() <= options_.whole_limit_bytes &&
                        buffer.count <= staged_elements(buffer.type);
  if (is_small) {
    begin(mine);
    reduce_whole(buffer, reduction);
    return;
  }
  if (const auto location = peers_->locate(buffer.data, buffer.bytes())) {
    mine.reachable = 1;
    mine.location = *location;
  }
  begin(mine);
  meet();
  check_announcements();
  bool in_place = all_reachable();
  // All nodes must cut the buffer into the same slices. Up to a chunk both ways do.
  if (reduction.across && buffer.count > staged_elements(buffer.type))
    in_place = is_everywhere(in_place, *reduction.across);
  if (in_place)
    reduce_in_place(buffer, reduction);
  else
    reduce_staged(buffer, reduction);
}

bool NodeGroup::is_everywhere(bool here, const AcrossNodes& across) {
  std::uint32_t& verdict = memory_.cells[0]->verdict;
  if (rank_ == 0) verdict = across.everywhere(here) ? 1 : 0;
  meet();
  return verdict != 0;
}

// Every rank reduces everything: one meeting, which for small buffers is what takes the time.
void NodeGroup::reduce_whole(const Buffer& buffer, const Reduction& reduction) {
  auto* const mine = static_cast<std::byte*>(buffer.data);
  ++half_;
  copy(staged(rank_), mine, buffer.count, buffer.type);
  meet();
  check_announcements();
  for (int peer = 0; peer < size_; ++peer) parts_[static_cast<std::size_t>(peer)] = staged(peer);
  parts_[static_cast<std::size_t>(rank_)] = mine;
  reduce(buffer.type, reduction.op, sources(), std::span(&mine, 1), buffer.count,
         reduction.divisor);
}

void NodeGroup::reduce_in_place(const Buffer& buffer, const Reduction& reduction) {
  if (rank_ < reduction.slices) {
    const auto slice = slice_of(buffer.count, rank_, reduction.slices);
    for (int peer = 0; peer < size_; ++peer) {
      parts_[static_cast<std::size_t>(peer)] =
          at(peers_->address(peer, announcement(peer).location), slice.begin, buffer.type);
    }
    reduce_parts(slice.size(), buffer.type, reduction);
  }
  meet();
}

// As in place, chunk by chunk, with the staging areas as the places where the others reach a rank's
// slices; its own slice never leaves its buffer. A result goes back to where its operand came from:
// those cache lines are in the owner's hands already, and a rank reads only its own area. Lines
// that two processors have read are slow to write, and this way there are none.
void NodeGroup::reduce_staged(const Buffer& buffer, const Reduction& reduction) {
  const std::int64_t chunk = staged_elements(buffer.type);
  for (std::int64_t offset = 0; offset < buffer.count; offset += chunk) {
    const auto count = std::min(chunk, buffer.count - offset);
    std::byte* const mine = at(buffer.data, offset, buffer.type);
    ++half_;
    copy_other_slices(staged(rank_), mine, count, buffer.type, reduction.slices);
    meet();
    if (rank_ < reduction.slices) {
      const auto slice = slice_of(count, rank_, reduction.slices);
      for (int peer = 0; peer < size_; ++peer) {
        parts_[static_cast<std::size_t>(peer)] =
            at(peer == rank_ ? mine : staged(peer), slice.begin, buffer.type);
      }
      reduce_parts(slice.size(), buffer.type, reduction);
    }
    meet();
    copy_other_slices(mine, staged(rank_), count, buffer.type, reduction.slices);
  }
}

// Reduces this rank's slice, which lies at parts_, and leaves the result in all of them.
void NodeGroup::reduce_parts(std::int64_t count, DataType type, const Reduction& reduction) {
  if (!reduction.across)
    return reduce(type, reduction.op, sources(), parts_, count, reduction.divisor);
  if (count == 0) return;
  std::byte* const mine = parts_[static_cast<std::size_t>(rank_)];
  reduce_across(Buffer(mine, count, type), reduction);
  for (std::byte* const part : parts_) {
    if (part != mine) copy(part, mine, count, type);
  }
}

void NodeGroup::reduce_across(const Buffer& result, const Reduction& reduction) {
  auto* const memory = static_cast<std::byte*>(result.data);
  if (!needs_wide_partials(result.type, reduction.op)) {
    reduce(result.type, reduction.op, sources(), std::span(&memory, 1), result.count,
           reduction.divisor);
    return reduction.across->reduce(result, result);
  }
  partial_.resize(static_cast<std::size_t>(result.count));
  const Buffer partial{std::span(partial_)};
  reduce(result.type, partial.type, reduction.op, sources(),
         reinterpret_cast<std::byte*>(partial_.data()), result.count, reduction.divisor);
  reduction.across->reduce(partial, result);
}

void NodeGroup::copy_other_slices(std::byte* to, const std::byte* from, std::int64_t count,
                                  DataType type, int slices) const {
  for (int owner = 0; owner < slices; ++owner) {
    if (owner == rank_) continue;
    const auto slice = slice_of(count, owner, slices);
    copy(at(to, slice.begin, type), at(from, slice.begin, type), slice.size(), type);
  }
}

void NodeGroup::broadcast(const Buffer& buffer, int root) {
  begin(announce(Collective::broadcast, buffer, static_cast<std::uint32_t>(root)));
  meet();
  check_announcements();
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

void NodeGroup::all_gather(const ConstBuffer& input, const Buffer& output) {
  begin(announce(Collective::all_gather, input, 0));
  meet();
  check_announcements();
  const std::int64_t chunk = staged_elements(input.type);
  for (std::int64_t offset = 0; offset < input.count; offset += chunk) {
    const auto count = std::min(chunk, input.count - offset);
    ++half_;
    copy(staged(rank_), at(input.data, offset, input.type), count, input.type);
    meet();
    for (int peer = 0; peer < size_; ++peer) {
      copy(at(output.data, peer * input.count + offset, input.type), staged(peer), count,
           input.type);
    }
  }
}

void NodeGroup::reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op,
                               int divisor) {
  auto mine = announce(Collective::reduce_scatter, input, static_cast<std::uint32_t>(op));
  if (const auto location = peers_->locate(input.data, input.bytes())) {
    mine.reachable = 1;
    mine.location = *location;
  }
  begin(mine);
  meet();
  check_announcements();
  auto* const result = static_cast<std::byte*>(output.data);
  if (all_reachable()) {
    for (int peer = 0; peer < size_; ++peer) {
      parts_[static_cast<std::size_t>(peer)] =
          at(peers_->address(peer, announcement(peer).location), rank_ * output.count, input.type);
    }
    reduce(input.type, op, sources(), std::span(&result, 1), output.count, divisor);
    meet();
    return;
  }
  // Of every rank's part a piece at a time, so that the pieces for all ranks fit the staging area.
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
      parts_[static_cast<std::size_t>(peer)] = at(staged(peer), rank_ * piece, input.type);
    }
    std::byte* const destination = at(result, offset, input.type);
    reduce(input.type, op, sources(), std::span(&destination, 1), count, divisor);
  }
}

void NodeGroup::barrier() {
  agree(Collective::barrier, 0);
}

void NodeGroup::agree(Collective collective, std::int64_t count) {
  begin(announce(collective, ConstBuffer(nullptr, count, DataType::uint8), 0));
  meet();
  check_announcements();
}

}  // namespace kolo
