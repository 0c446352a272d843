#include "comm/collective_checks.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

void check_memory(const ConstBuffer& buffer, const char* collective, const char* which) {
  if (buffer.count < 0 || (buffer.count > 0 && buffer.data == nullptr)) {
    throw Error(fmt::format(
        "comm: {}: the {} buffer has {} elements at address {}; expected memory and a count >= 0",
        collective, which, buffer.count, buffer.data));
  }
}

void check_op(DataType type, ReduceOp op, const char* collective) {
  if (type == DataType::boolean && op == ReduceOp::average) {
    throw Error(fmt::format(
        "comm: {}: booleans have no average; use sum (or), min (and) or max (or)", collective));
  }
}

// `whole` must hold `parts` times `part`.
void check_parts(const ConstBuffer& whole, const ConstBuffer& part, int parts,
                 const char* collective) {
  const auto expected = checked_multiply<std::int64_t>(part.count, parts);
  if (whole.count != expected || whole.type != part.type) {
    throw Error(
        fmt::format("comm: {}: {} {} elements and {} {} elements don't fit; {} ranks need {} {} "
                    "elements for the larger one",
                    collective, whole.count, name_of(whole.type), part.count, name_of(part.type),
                    parts, expected, name_of(part.type)));
  }
}

// One count a rank, none negative, together as many as the buffer has.
void check_counts(std::span<const std::int64_t> counts, const ConstBuffer& whole, int size,
                  const char* collective, const char* which) {
  std::int64_t sum = 0;
  bool is_valid = counts.size() == static_cast<std::size_t>(size);
  for (const std::int64_t count : counts) {
    is_valid = is_valid && count >= 0;
    if (is_valid) sum = checked_add(sum, count);
  }
  if (!is_valid || sum != whole.count) {
    throw Error(fmt::format(
        "comm: {}: the {} counts [{}] don't fit a buffer of {} elements; expected {} counts of at "
        "least 0 that add up to it",
        collective, which, fmt::join(counts, ", "), whole.count, size));
  }
}

void check_same_type(const ConstBuffer& input, const Buffer& output, const char* collective) {
  if (input.type != output.type) {
    throw Error(fmt::format("comm: {}: the input is {} and the output {}; both must be the same",
                            collective, name_of(input.type), name_of(output.type)));
  }
}

}  // namespace

void check_all_reduce(const Buffer& buffer, ReduceOp op) {
  check_memory(buffer, "all-reduce", "data");
  check_op(buffer.type, op, "all-reduce");
}

void check_broadcast(const Buffer& buffer, int root, int size) {
  check_memory(buffer, "broadcast", "data");
  if (root < 0 || root >= size) {
    throw Error(
        fmt::format("comm: broadcast: root {} is not a rank; expected 0 to {}", root, size - 1));
  }
}

void check_all_gather(const ConstBuffer& input, const Buffer& output, int size) {
  check_memory(input, "all-gather", "input");
  check_memory(output, "all-gather", "output");
  check_parts(output, input, size, "all-gather");
}

void check_all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                             std::span<const std::int64_t> counts, const Topology& topology) {
  constexpr auto name = "uneven all-gather";
  check_memory(input, name, "input");
  check_memory(output, name, "output");
  check_same_type(input, output, name);
  check_counts(counts, output, topology.size, name, "ranks'");
  const auto own = counts[static_cast<std::size_t>(topology.rank)];
  if (input.count != own) {
    throw Error(fmt::format("comm: {}: rank {} puts in {} elements, but its count is {}", name,
                            topology.rank, input.count, own));
  }
}

void check_reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op, int size) {
  check_memory(input, "reduce-scatter", "input");
  check_memory(output, "reduce-scatter", "output");
  check_op(input.type, op, "reduce-scatter");
  check_parts(input, output, size, "reduce-scatter");
}

void check_all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                      const Buffer& output, std::span<const std::int64_t> receive_counts,
                      int size) {
  check_memory(input, "all-to-all", "input");
  check_memory(output, "all-to-all", "output");
  check_same_type(input, output, "all-to-all");
  check_counts(send_counts, input, size, "all-to-all", "send");
  check_counts(receive_counts, output, size, "all-to-all", "receive");
}

void check_subset(std::span<const int> ranks, int size) {
  bool is_valid = !ranks.empty();
  std::set<int> seen;
  for (const int rank : ranks)
    is_valid = is_valid && rank >= 0 && rank < size && seen.insert(rank).second;
  if (!is_valid) {
    throw Error(
        fmt::format("comm: a set of the ranks [{}]; expected at least one, each once, from 0 to {}",
                    fmt::join(ranks, ", "), size - 1));
  }
}

}  // namespace kolo
