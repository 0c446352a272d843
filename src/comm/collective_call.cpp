#include "kolo/comm/collective_call.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"

namespace kolo {

// The table is in the order of Collective.
const CollectiveTraits& traits_of(Collective collective) {
  static constexpr std::array<CollectiveTraits, 16> traits = {{
      {.name = "nothing"},
      {.name = "all-reduce", .buffers = BufferShape::in_place, .reduces = true},
      {.name = "broadcast", .buffers = BufferShape::in_place, .has_root = true},
      {.name = "all-gather", .buffers = BufferShape::gathered},
      {.name = "uneven all-gather", .buffers = BufferShape::gathered_uneven},
      {.name = "reduce-scatter", .buffers = BufferShape::scattered, .reduces = true},
      {.name = "all-to-all", .buffers = BufferShape::exchanged_uneven},
      {.name = "barrier"},
      {.name = "allocate"},
      {.name = "allocate"},
      {.name = "allocate"},
      {.name = "split"},
      {.name = "task"},
      {.name = "join"},
      {.name = "send", .buffers = BufferShape::sent, .has_peer = true},
      {.name = "receive", .buffers = BufferShape::received, .has_peer = true},
  }};
  static_assert(static_cast<std::size_t>(Collective::receive) + 1 == traits.size());
  return traits[static_cast<std::size_t>(collective)];
}

std::string_view name_of(Collective collective) {
  return traits_of(collective).name;
}

std::string CallHeader::describe() const {
  const CollectiveTraits& traits = traits_of(collective);
  std::string text(traits.name);
  if (traits.reduces) text += fmt::format(" ({})", name_of(op));
  if (traits.has_root) text += fmt::format(" (from root {})", peer);
  if (traits.buffers != BufferShape::none) text += fmt::format(" of {} {}", count, name_of(type));
  if (memory != MemoryKind::host) text += fmt::format(" in {} memory", name_of(memory));
  if (traits.has_peer) {
    text += fmt::format(" ({} bytes) {} rank {}", static_cast<std::size_t>(count) * size_of(type),
                        collective == Collective::send ? "to" : "from", peer);
  }
  if (tag != 0 || traits.has_peer) text += fmt::format(", tag {}", tag);
  switch (collective) {
    case Collective::allocate:
      return text + fmt::format(" of {} bytes", count);
    case Collective::allocate_shared:
      return text + fmt::format(" of {} bytes, shared", count);
    case Collective::allocate_for_node:
      return text + fmt::format(" of {} bytes, one for a node", count);
    default:
      return text;
  }
}

std::string_view first_difference(const CallHeader& a, const CallHeader& b) {
  if (a.collective != b.collective) return "the collective";
  if (a.type != b.type) return "the element type";
  if (a.op != b.op) return "the operation";
  if (a.peer != b.peer) return "the root";
  if (a.tag != b.tag) return "the tag";
  if (a.memory != b.memory) return "the kind of memory";
  if (traits_of(a.collective).buffers == BufferShape::exchanged_uneven) return {};
  if (a.count != b.count) return "the count";
  if (a.fingerprint != b.fingerprint) return counts_by_rank;
  return {};
}

namespace {

// `counted`: the buffer whose elements the header counts.
CollectiveCall call_of(Collective collective, const ConstBuffer& input, const Buffer& output,
                       const ConstBuffer& counted) {
  CollectiveCall call;
  call.collective = collective;
  call.type = counted.type;
  call.memory = counted.memory;
  call.count = counted.count;
  call.input = input;
  call.output = output;
  return call;
}

}  // namespace

CollectiveCall CollectiveCall::all_reduce(const Buffer& buffer, ReduceOp op) {
  auto call = call_of(Collective::all_reduce, buffer, buffer, buffer);
  call.op = op;
  return call;
}

CollectiveCall CollectiveCall::broadcast(const Buffer& buffer, int root) {
  auto call = call_of(Collective::broadcast, buffer, buffer, buffer);
  call.peer = root;
  return call;
}

CollectiveCall CollectiveCall::all_gather(const ConstBuffer& input, const Buffer& output) {
  return call_of(Collective::all_gather, input, output, input);
}

CollectiveCall CollectiveCall::all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                                                 std::span<const std::int64_t> counts) {
  auto call = call_of(Collective::all_gather_uneven, input, output, output);
  call.receive_counts.assign(counts.begin(), counts.end());
  return call;
}

CollectiveCall CollectiveCall::reduce_scatter(const ConstBuffer& input, const Buffer& output,
                                              ReduceOp op) {
  auto call = call_of(Collective::reduce_scatter, input, output, input);
  call.op = op;
  return call;
}

CollectiveCall CollectiveCall::all_to_all(const ConstBuffer& input,
                                          std::span<const std::int64_t> send_counts,
                                          const Buffer& output,
                                          std::span<const std::int64_t> receive_counts) {
  auto call = call_of(Collective::all_to_all, input, output, input);
  call.send_counts.assign(send_counts.begin(), send_counts.end());
  call.receive_counts.assign(receive_counts.begin(), receive_counts.end());
  return call;
}

CollectiveCall CollectiveCall::send(const ConstBuffer& buffer, int peer, int tag) {
  auto call = call_of(Collective::send, buffer, {}, buffer);
  call.peer = peer;
  call.tag = tag;
  return call;
}

CollectiveCall CollectiveCall::receive(const Buffer& buffer, int peer, int tag) {
  auto call = call_of(Collective::receive, {}, buffer, buffer);
  call.peer = peer;
  call.tag = tag;
  return call;
}

CollectiveCall CollectiveCall::of(Collective collective, std::int64_t count) {
  CollectiveCall call;
  call.collective = collective;
  call.count = count;
  return call;
}

namespace {

// Throws an Error, which begins with the collective's name, where the condition doesn't hold.
template <typename... Values>
void require_that(bool is_so, const CollectiveCall& call, fmt::format_string<Values...> text,
                  Values&&... values) {
  if (is_so) return;
  throw Error(fmt::format("comm: {}: {}", name_of(call.collective),
                          fmt::format(text, std::forward<Values>(values)...)));
}

void check_memory(const CollectiveCall& call, const ConstBuffer& buffer, const char* which) {
  require_that(buffer.count == 0 || (buffer.count > 0 && buffer.data != nullptr), call,
               "the {} buffer has {} elements at address {}; expected memory and a count >= 0",
               which, buffer.count, buffer.data);
}

void check_peer(const CollectiveCall& call, const Topology& topology) {
  const bool is_rank = call.peer >= 0 && call.peer < topology.size;
  require_that(!is_rank || call.peer != topology.rank, call,
               "peer {} is this rank itself; exchange() does both halves of such a message in the "
               "host's memory",
               call.peer);
  require_that(is_rank, call, "peer {} is not a rank; expected 0 to {}", call.peer,
               topology.size - 1);
  require_that(call.tag >= 0, call, "tag {}; expected 0 or more", call.tag);
}

// Requires that `whole` holds a `part` for every rank.
void check_parts(const CollectiveCall& call, const ConstBuffer& whole, const ConstBuffer& part,
                 int ranks) {
  const auto expected = checked_multiply<std::int64_t>(part.count, ranks);
  require_that(whole.count == expected && whole.type == part.type, call,
               "{} {} elements and {} {} elements don't fit; {} ranks need {} {} elements for the "
               "larger one",
               whole.count, name_of(whole.type), part.count, name_of(part.type), ranks, expected,
               name_of(part.type));
}

// Requires one count a rank, none negative, that add up to the buffer's.
void check_counts(const CollectiveCall& call, std::span<const std::int64_t> counts,
                  const ConstBuffer& whole, int size, const char* which) {
  std::int64_t sum = 0;
  bool is_valid = counts.size() == static_cast<std::size_t>(size);
  for (const std::int64_t count : counts) {
    is_valid = is_valid && count >= 0;
    if (is_valid) sum = checked_add(sum, count);
  }
  require_that(is_valid && sum == whole.count, call,
               "the {} counts [{}] don't fit a buffer of {} elements; expected {} counts of at "
               "least 0 that add up to it",
               which, fmt::join(counts, ", "), whole.count, size);
}

void check_uneven(const CollectiveCall& call, const Topology& topology) {
  const bool is_gathered = traits_of(call.collective).buffers == BufferShape::gathered_uneven;
  require_that(call.input.type == call.output.type, call,
               "the input is {} and the output {}; both must be the same", name_of(call.input.type),
               name_of(call.output.type));
  if (!is_gathered) check_counts(call, call.send_counts, call.input, topology.size, "send");
  check_counts(call, call.receive_counts, call.output, topology.size,
               is_gathered ? "ranks'" : "receive");
  const auto own = call.receive_counts[static_cast<std::size_t>(topology.rank)];
  require_that(!is_gathered || call.input.count == own, call,
               "rank {} puts in {} elements, but its count is {}", topology.rank, call.input.count,
               own);
}

}  // namespace

void check_arguments(const CollectiveCall& call, const Topology& topology) {
  const CollectiveTraits& traits = traits_of(call.collective);
  if (traits.buffers == BufferShape::none) return;
  if (traits.has_peer) {
    check_peer(call, topology);
    const bool is_sent = traits.buffers == BufferShape::sent;
    return check_memory(call, is_sent ? call.input : call.output, is_sent ? "sent" : "received");
  }
  const bool is_in_place = traits.buffers == BufferShape::in_place;
  if (!is_in_place) check_memory(call, call.input, "input");
  require_that(call.input.memory == call.output.memory, call,
               "the input is in {} memory and the output in {} memory; a collective takes both in "
               "one: copy one of them",
               name_of(call.input.memory), name_of(call.output.memory));
  check_memory(call, call.output, is_in_place ? "data" : "output");
  require_that(!traits.reduces || call.type != DataType::boolean || call.op != ReduceOp::average,
               call, "booleans have no average; use sum (or), min (and) or max (or)");
  require_that(!traits.has_root || (call.peer >= 0 && call.peer < topology.size), call,
               "root {} is not a rank; expected 0 to {}", call.peer, topology.size - 1);
  switch (traits.buffers) {
    case BufferShape::gathered:
      return check_parts(call, call.output, call.input, topology.size);
    case BufferShape::scattered:
      return check_parts(call, call.input, call.output, topology.size);
    case BufferShape::gathered_uneven:
    case BufferShape::exchanged_uneven:
      return check_uneven(call, topology);
    default:
      return;
  }
}

}  // namespace kolo
