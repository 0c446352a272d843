#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/aligned_memory.h"
#include "comm/negotiation/negotiated_backend.h"
#include "comm/negotiation/neutral_values.h"
#include "kolo/base/checked.h"

// What a rank does that has joined.
namespace kolo {

namespace {

// Memory for a collective whose result nobody here needs; zero-filled.
class Scratch {
 public:
  Scratch(DataType type, std::int64_t count)
      : memory_(allocate_aligned(checked_multiply(static_cast<std::size_t>(count), size_of(type)))),
        buffer_(memory_.get(), count, type) {}

  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  void make_neutral(ReduceOp op) { fill_neutral(buffer_.type, op, memory_.get(), buffer_.count); }

 private:
  std::shared_ptr<std::byte> memory_;
  Buffer buffer_;
};

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

NegotiatedBackend::JoinResult NegotiatedBackend::join(Progress mine) {
  const CallHeader header{.collective = Collective::join,
                          .detail = mine.splits,
                          .count = narrow<std::int64_t>(mine.calls),
                          .fingerprint = mine.all_calls};
  while (true) {
    exchange(header);
    note_joined();
    const int first = first_active_rank(headers_);
    if (first < 0) return end_of_join();
    check_calls({});
    take_part(headers_[static_cast<std::size_t>(first)]);
  }
}

NegotiatedBackend::JoinResult NegotiatedBackend::end_of_join() {
  activate_all();
  JoinResult result{.last_rank = last_joined_, .progress = {}};
  for (const CallHeader& header : headers_) {
    result.progress.calls =
        std::max(result.progress.calls, static_cast<std::uint64_t>(header.count));
    result.progress.splits = std::max(result.progress.splits, header.detail);
  }
  result.refused = std::exchange(refused_, std::nullopt);
  return result;
}

void NegotiatedBackend::take_part(const CallHeader& call) {
  const auto type = static_cast<DataType>(call.type);
  const auto size = static_cast<std::int64_t>(headers_.size());
  switch (call.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return take_part_in_reduction(call);
    case Collective::broadcast:
      return inner_->broadcast(Scratch(type, call.count).buffer(), static_cast<int>(call.detail));
    case Collective::all_gather:
      return inner_->all_gather(Scratch(type, call.count).buffer(),
                                Scratch(type, checked_multiply(call.count, size)).buffer());
    case Collective::all_gather_uneven:
      return take_part_in_uneven_gather(type);
    case Collective::all_to_all:
      return take_part_in_all_to_all(type);
    case Collective::allocate:
      return take_part_in_allocation(call);
    case Collective::split:
      (void)inner_->split(-1, 0);
      return;
    case Collective::barrier:  // is done with the headers
      if (call.detail == refusal) refused_ = words_of_refusal({});
      return;
    default:
      return;
  }
}

void NegotiatedBackend::take_part_in_allocation(const CallHeader& call) {
  const auto bytes = static_cast<std::size_t>(call.count);
  switch (call.memory) {
    case MemoryKind::own:
      (void)inner_->allocate(bytes);
      return;
    case MemoryKind::shared:
      (void)inner_->allocate_shared(bytes);
      return;
    case MemoryKind::for_node:
      (void)inner_->allocate_for_node(bytes);
      return;
  }
}

void NegotiatedBackend::take_part_in_reduction(const CallHeader& call) {
  const auto type = static_cast<DataType>(call.type);
  const auto op = static_cast<ReduceOp>(call.detail);
  Scratch values(type, call.count);
  values.make_neutral(op);
  if (call.collective == Collective::all_reduce)
    return inner_->all_reduce(values.buffer(), op, active_ranks());
  const Scratch part(type, call.count / static_cast<std::int64_t>(headers_.size()));
  inner_->reduce_scatter(values.buffer(), part.buffer(), op, active_ranks());
}

void NegotiatedBackend::take_part_in_uneven_gather(DataType type) {
  std::vector<std::int64_t> counts(headers_.size());
  inner_->broadcast(std::span(counts), first_active_rank(headers_));
  const Scratch input(type, counts[static_cast<std::size_t>(topology().rank)]);
  const Scratch output(type, sum_of(counts));
  inner_->all_gather_uneven(input.buffer(), output.buffer(), counts);
}

void NegotiatedBackend::take_part_in_all_to_all(DataType type) {
  const std::size_t size = headers_.size();
  const auto rank = static_cast<std::size_t>(topology().rank);
  const auto all_counts = gather_counts(std::vector<std::int64_t>(2 * size));
  check_all_to_all_counts(all_counts);
  // What every rank expects from this one, and what it sends here; of joined ranks both are 0.
  std::vector<std::int64_t> sent(size), received(size);
  for (std::size_t peer = 0; peer < size; ++peer) {
    sent[peer] = all_counts[peer * 2 * size + size + rank];
    received[peer] = all_counts[peer * 2 * size + rank];
  }
  inner_->all_to_all(Scratch(type, sum_of(sent)).buffer(), sent,
                     Scratch(type, sum_of(received)).buffer(), received);
}

}  // namespace kolo
