#include <algorithm>

#include "comm/shared_memory/node_group.h"
#include "comm/shared_memory/reduce_kernels.h"

// All-reduce among the ranks of a node, alone or as the node's part of one over several. A staging
// half that is filled before a meeting is read after it, and filled again only after one more
// meeting, to which nobody comes before having read: so the two halves take turns. The others also
// write into a half here, which takes two meetings a chunk.
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

struct NodeGroup::AllReduce {
  NodeGroup& node;
  const CollectiveCall& call;
  const int slices;
  const AcrossNodes* const across;  // nothing: all ranks are here
  const Buffer& buffer = call.output;
  const DataType type = call.output.type;
  const int rank = node.rank_;
  const int size = node.size_;

  void all_reduce() const;
  void reduce_whole() const;
  void reduce_in_place() const;
  void reduce_staged() const;
  void reduce_slice(std::int64_t count) const;
  void reduce_across(const Buffer& result) const;
  [[nodiscard]] bool is_everywhere(bool here) const;
  void copy_other_slices(std::byte* to, const std::byte* from, std::int64_t count) const;
};

void NodeGroup::all_reduce(const CollectiveCall& call, int slices, const AcrossNodes* across) {
  AllReduce{*this, call, slices, across}.all_reduce();
}

void NodeGroup::AllReduce::all_reduce() const {
  const bool is_small = !across && buffer.bytes() <= node.options_.whole_limit_bytes &&
                        buffer.count <= node.staged_elements(type);
  if (is_small) {
    node.begin(call);
    reduce_whole();
    return;
  }
  node.begin(call, node.peers_->locate(buffer.data, buffer.bytes()));
  node.meet();
  node.check_announcements();
  bool in_place = node.all_reachable();
  // All nodes must cut the buffer into the same slices. Up to a chunk both ways do.
  if (across && buffer.count > node.staged_elements(type)) in_place = is_everywhere(in_place);
  if (in_place)
    reduce_in_place();
  else
    reduce_staged();
}

bool NodeGroup::AllReduce::is_everywhere(bool here) const {
  std::uint32_t& verdict = node.memory_.cells[0]->verdict;
  if (rank == 0) verdict = across->everywhere(here) ? 1 : 0;
  node.meet();
  return verdict != 0;
}

// Has every rank reduce everything: one meeting, whose time counts most for small buffers.
void NodeGroup::AllReduce::reduce_whole() const {
  auto* const mine = static_cast<std::byte*>(buffer.data);
  ++node.half_;
  copy(node.staged(rank), mine, buffer.count, type);
  node.meet();
  node.check_announcements();
  for (int peer = 0; peer < size; ++peer)
    node.operands_[static_cast<std::size_t>(peer)] = node.staged(peer);
  node.operands_[static_cast<std::size_t>(rank)] = mine;
  reduce(type, call.op, node.sources(), std::span(&mine, 1), buffer.count, call.divisor);
}

void NodeGroup::AllReduce::reduce_in_place() const {
  if (rank < slices) {
    const auto slice = slice_of(buffer.count, rank, slices);
    for (int peer = 0; peer < size; ++peer) {
      node.operands_[static_cast<std::size_t>(peer)] =
          at(node.peers_->address(peer, node.announcement(peer).location), slice.begin, type);
    }
    reduce_slice(slice.size());
  }
  node.meet();
}

// Reduces as in place, chunk by chunk. The others reach a rank's slices in its staging area; its
// own slice never leaves its buffer. A result goes back to where its operand came from, into cache
// lines that the owner has already: lines that two processors have read are slow to write.
void NodeGroup::AllReduce::reduce_staged() const {
  const std::int64_t chunk = node.staged_elements(type);
  for (std::int64_t offset = 0; offset < buffer.count; offset += chunk) {
    const auto count = std::min(chunk, buffer.count - offset);
    std::byte* const mine = at(buffer.data, offset, type);
    ++node.half_;
    copy_other_slices(node.staged(rank), mine, count);
    node.meet();
    if (rank < slices) {
      const auto slice = slice_of(count, rank, slices);
      for (int peer = 0; peer < size; ++peer) {
        node.operands_[static_cast<std::size_t>(peer)] =
            at(peer == rank ? mine : node.staged(peer), slice.begin, type);
      }
      reduce_slice(slice.size());
    }
    node.meet();
    copy_other_slices(mine, node.staged(rank), count);
  }
}

// Reduces this rank's slice, which lies at node.operands_, and leaves the result in all of them.
void NodeGroup::AllReduce::reduce_slice(std::int64_t count) const {
  if (!across) return reduce(type, call.op, node.sources(), node.operands_, count, call.divisor);
  if (count == 0) return;
  std::byte* const mine = node.operands_[static_cast<std::size_t>(rank)];
  reduce_across(Buffer(mine, count, type));
  for (std::byte* const operand : node.operands_) {
    if (operand != mine) copy(operand, mine, count, type);
  }
}

void NodeGroup::AllReduce::reduce_across(const Buffer& result) const {
  Buffer partial = result;
  if (needs_wide_partials(result.type, call.op)) {
    node.partial_.resize(static_cast<std::size_t>(result.count));
    partial = std::span(node.partial_);
  }
  reduce(result.type, partial.type, call.op, node.sources(), static_cast<std::byte*>(partial.data),
         result.count, call.divisor);
  across->reduce(partial, result);
}

void NodeGroup::AllReduce::copy_other_slices(std::byte* to, const std::byte* from,
                                             std::int64_t count) const {
  for (int owner = 0; owner < slices; ++owner) {
    if (owner == rank) continue;
    const auto slice = slice_of(count, owner, slices);
    copy(at(to, slice.begin, type), at(from, slice.begin, type), slice.size(), type);
  }
}

}  // namespace kolo
