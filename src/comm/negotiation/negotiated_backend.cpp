#include "comm/negotiation/negotiated_backend.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "comm/shared_memory/reduce_kernels.h"
#include "comm/solo/alone.h"
#include "comm/with_type.h"
#include "kolo/base/checked.h"

// The negotiation and the collectives of active ranks, then those of joined ones.
namespace kolo {

NegotiatedBackend::NegotiatedBackend(std::shared_ptr<Backend> inner)
    : inner_(std::move(inner)),
      headers_(static_cast<std::size_t>(inner_->topology().size)),
      joined_(headers_.size()),
      active_ranks_(inner_->topology().size) {}

void NegotiatedBackend::negotiate(const CallHeader& mine, std::span<const std::int64_t> counts) {
  exchange(mine);
  check_calls(counts);
}

void NegotiatedBackend::exchange(const CallHeader& mine) {
  const auto bytes = narrow<std::int64_t>(sizeof(CallHeader));
  const auto size = static_cast<std::int64_t>(headers_.size());
  inner_->execute(
      CollectiveCall::all_gather(ConstBuffer(&mine, bytes, DataType::uint8),
                                 Buffer(headers_.data(), size * bytes, DataType::uint8)));
  const auto active = std::count_if(headers_.begin(), headers_.end(), is_active);
  if (active > 0) active_ranks_.store(static_cast<int>(active), std::memory_order_relaxed);
  // Last of those that join now: the highest of the ranks that have made equally many calls.
  std::uint64_t most_calls = 0;
  for (std::size_t rank = 0; rank < headers_.size(); ++rank) {
    if (is_active(headers_[rank]) || joined_[rank]) continue;
    joined_[rank] = true;
    if (headers_[rank].fingerprint < most_calls) continue;
    most_calls = headers_[rank].fingerprint;
    last_joined_ = static_cast<int>(rank);
  }
}

// Decides by the headers, which all ranks have, so all of them throw or none does.
void NegotiatedBackend::check_calls(std::span<const std::int64_t> counts) {
  const CallHeader& first = headers_[static_cast<std::size_t>(first_active_rank(headers_))];
  const bool is_same = std::all_of(headers_.begin(), headers_.end(), [&](const CallHeader& header) {
    return !is_active(header) || first_difference(first, header).empty();
  });
  if (!is_same) {
    fail(describe_mismatch(headers_, [&] {
      std::vector<std::int64_t> mine(counts.begin(), counts.end());
      mine.resize(headers_.size());  // a joined rank has none
      return gather_counts(mine);
    }));
  }
  const bool has_root = traits_of(first.collective).has_root;
  if (has_root && !is_active(headers_.at(static_cast<std::size_t>(first.peer)))) {
    fail(
        fmt::format("comm: {}: rank {} has joined and has no data to send; broadcast from a rank "
                    "that is still active, or after the join from the rank that join() returns",
                    first.describe(), first.peer));
  }
}

void NegotiatedBackend::fail(const std::string& message) {
  activate_all();
  throw NegotiationError(message);
}

void NegotiatedBackend::activate_all() {
  if (std::find(joined_.begin(), joined_.end(), true) == joined_.end()) return;
  joined_.assign(joined_.size(), false);
  active_ranks_.store(topology().size, std::memory_order_relaxed);
  joins_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<std::int64_t> NegotiatedBackend::gather_counts(
    std::span<const std::int64_t> mine) const {
  std::vector<std::int64_t> all(mine.size() * headers_.size());
  inner_->execute(CollectiveCall::all_gather(mine, std::span(all)));
  return all;
}

void NegotiatedBackend::execute(const CollectiveCall& call) {
  negotiate(with_counts(call, topology().rank), call.receive_counts);
  const auto shape = traits_of(call.collective).buffers;
  // A barrier is done: everybody's header is here, so everybody has come.
  if (shape == BufferShape::none) return;
  if (shape == BufferShape::gathered_uneven && has_joined_ranks()) {
    auto counts = call.receive_counts;
    inner_->execute(CollectiveCall::broadcast(std::span(counts), first_active_rank(headers_)));
  }
  if (shape == BufferShape::exchanged_uneven) agree_on_exchange(call);
  if (!has_joined_ranks()) return inner_->execute(call);
  CollectiveCall with_neutral_values = call;
  with_neutral_values.divisor = active_ranks();
  inner_->execute(with_neutral_values);
}

// Makes sure that every rank expects what is sent to it, joined ranks apart.
void NegotiatedBackend::agree_on_exchange(const CollectiveCall& call) {
  std::uint64_t balance = 0;
  for (const CallHeader& header : headers_) balance += header.fingerprint;
  if (!has_joined_ranks() && balance == 0) return;
  auto mine = call.send_counts;
  mine.insert(mine.end(), call.receive_counts.begin(), call.receive_counts.end());
  const auto mismatch = describe_exchange_mismatch(headers_, gather_counts(mine));
  if (!mismatch.empty()) fail(mismatch);
}

std::vector<std::shared_ptr<std::byte>> NegotiatedBackend::allocate(const CallHeader& call) {
  negotiate(call);
  return inner_->allocate(call);
}

std::shared_ptr<Backend> NegotiatedBackend::split(int color, int key) {
  negotiate({.collective = Collective::split});
  auto subset = inner_->split(color, key);
  return subset ? std::make_shared<NegotiatedBackend>(std::move(subset)) : nullptr;
}

namespace {

template <typename T>
T neutral(ReduceOp op) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(neutral<float>(op));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(neutral<float>(op));
  } else {
    using Limits = std::numeric_limits<T>;
    switch (op) {
      case ReduceOp::product:
        return 1;
      case ReduceOp::min:
        return Limits::has_infinity ? Limits::infinity() : Limits::max();
      case ReduceOp::max:
        return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
      default:
        return 0;
    }
  }
}

// Sets `count` elements to what a reduction leaves as it is: 0 for sum and average, 1 for product,
// the greatest value (infinity) for min, the least for max; of booleans false for sum (or) and max,
// true for product (and) and min.
void fill_neutral(DataType type, ReduceOp op, std::byte* values, std::int64_t count) {
  if (type == DataType::boolean) {
    const bool is_and = op == ReduceOp::min || op == ReduceOp::product;
    std::fill_n(values, count, static_cast<std::byte>(is_and));
    return;
  }
  with_type(type, [&](auto element) {
    using T = decltype(element);
    std::fill_n(reinterpret_cast<T*>(values), count, neutral<T>(op));
  });
}

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

NegotiatedBackend::JoinResult NegotiatedBackend::join(Progress mine) {
  const CallHeader header{.collective = Collective::join, .fingerprint = mine.all_calls};
  while (true) {
    exchange(header);
    const int first = first_active_rank(headers_);
    if (first < 0) return end_of_join(mine);
    check_calls({});
    take_part(headers_[static_cast<std::size_t>(first)]);
  }
}

// Agrees on the calls that have been made, some of which ranks that had joined have missed.
NegotiatedBackend::JoinResult NegotiatedBackend::end_of_join(const Progress& mine) {
  activate_all();
  std::array<std::int64_t, 2> furthest = {narrow<std::int64_t>(mine.calls), mine.splits};
  inner_->execute(CollectiveCall::all_reduce(std::span(furthest), ReduceOp::max));
  return {.last_rank = last_joined_,
          .progress = {.calls = static_cast<std::uint64_t>(furthest[0]),
                       .splits = static_cast<std::uint32_t>(furthest[1])}};
}

void NegotiatedBackend::take_part(const CallHeader& header) {
  switch (header.collective) {
    case Collective::allocate:
    case Collective::allocate_shared:
    case Collective::allocate_for_node:
      (void)inner_->allocate(header);
      return;
    case Collective::split:
      (void)inner_->split(-1, 0);
      return;
    default:  // a barrier is done with the headers
      if (traits_of(header.collective).buffers != BufferShape::none) take_part_with_buffers(header);
  }
}

// Makes the same call with values that change nothing.
void NegotiatedBackend::take_part_with_buffers(const CallHeader& header) {
  CollectiveCall call;
  static_cast<CallHeader&>(call) = header;
  call.fingerprint = 0;  // of counts that another rank has passed
  call.divisor = active_ranks();
  const auto shape = traits_of(header.collective).buffers;
  const auto size = static_cast<std::int64_t>(headers_.size());
  std::int64_t inputs = header.count, outputs = header.count;
  if (shape == BufferShape::gathered) outputs = checked_multiply(header.count, size);
  if (shape == BufferShape::scattered) outputs = header.count / size;
  if (shape == BufferShape::gathered_uneven || shape == BufferShape::exchanged_uneven) {
    set_counts(call);
    inputs = shape == BufferShape::exchanged_uneven
                 ? sum_of(call.send_counts)
                 : call.receive_counts[static_cast<std::size_t>(topology().rank)];
    outputs = sum_of(call.receive_counts);
  }
  const auto scratch = [&](std::int64_t count) {
    const auto bytes = checked_multiply(static_cast<std::size_t>(count), size_of(header.type));
    return allocate_aligned(bytes);
  };
  const auto input = scratch(inputs);
  const auto output = shape == BufferShape::in_place ? input : scratch(outputs);
  if (traits_of(header.collective).reduces)
    fill_neutral(header.type, header.op, input.get(), inputs);
  call.input = Buffer(input.get(), inputs, header.type);
  call.output = Buffer(output.get(), outputs, header.type);
  inner_->execute(call);
}

// Sets the counts by rank that the active ranks have told each other.
void NegotiatedBackend::set_counts(CollectiveCall& call) {
  const std::size_t size = headers_.size();
  call.receive_counts.resize(size);
  if (call.collective == Collective::all_gather_uneven) {
    inner_->execute(
        CollectiveCall::broadcast(std::span(call.receive_counts), first_active_rank(headers_)));
    return;
  }
  const auto all_counts = gather_counts(std::vector<std::int64_t>(2 * size));
  const auto mismatch = describe_exchange_mismatch(headers_, all_counts);
  if (!mismatch.empty()) fail(mismatch);
  const auto rank = static_cast<std::size_t>(topology().rank);
  call.send_counts.resize(size);
  // Joined ranks expect and send nothing.
  for (std::size_t peer = 0; peer < size; ++peer) {
    call.send_counts[peer] = all_counts[peer * 2 * size + size + rank];
    call.receive_counts[peer] = all_counts[peer * 2 * size + rank];
  }
}

}  // namespace kolo
