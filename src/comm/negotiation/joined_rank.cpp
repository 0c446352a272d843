#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "comm/aligned_memory.h"
#include "comm/negotiation/negotiated_backend.h"
#include "comm/shared_memory/half.h"
#include "kolo/base/checked.h"

// What a rank does that has joined.
namespace kolo {

namespace {

template <typename T>
T neutral(ReduceOp op) {
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

template <typename T>
void fill(std::byte* values, T value, std::int64_t count) {
  std::fill_n(reinterpret_cast<T*>(values), count, value);
}

// Sets `count` elements to what a reduction leaves as it is: 0 for sum and average, 1 for product,
// the greatest value (infinity) for min, the least for max; of booleans false for sum (or) and max,
// true for product (and) and min.
void fill_neutral(DataType type, ReduceOp op, std::byte* values, std::int64_t count) {
  switch (type) {
    case DataType::float64:
      return fill(values, neutral<double>(op), count);
    case DataType::float32:
      return fill(values, neutral<float>(op), count);
    case DataType::float16:
      return fill(values, to_float16(neutral<float>(op)), count);
    case DataType::bfloat16:
      return fill(values, to_bfloat16(neutral<float>(op)), count);
    case DataType::int64:
      return fill(values, neutral<std::int64_t>(op), count);
    case DataType::int32:
      return fill(values, neutral<std::int32_t>(op), count);
    case DataType::int16:
      return fill(values, neutral<std::int16_t>(op), count);
    case DataType::int8:
      return fill(values, neutral<std::int8_t>(op), count);
    case DataType::uint8:
      return fill(values, neutral<std::uint8_t>(op), count);
    case DataType::boolean: {
      const bool is_and = op == ReduceOp::min || op == ReduceOp::product;
      return fill(values, static_cast<std::uint8_t>(is_and), count);
    }
  }
}

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
  const CallHeader header{.collective = Collective::join, .fingerprint = mine.all_calls};
  while (true) {
    exchange(header);
    note_joined();
    const int first = first_active_rank(headers_);
    if (first < 0) return end_of_join(mine);
    check_calls({});
    take_part(headers_[static_cast<std::size_t>(first)]);
  }
}

// All ranks are here; who has joined has missed calls that others have made.
NegotiatedBackend::JoinResult NegotiatedBackend::end_of_join(const Progress& mine) {
  activate_all();
  const std::array<std::int64_t, 2> own = {narrow<std::int64_t>(mine.calls), mine.splits};
  const auto all = gather_counts(own);
  JoinResult result{.last_rank = last_joined_, .progress = {}};
  for (std::size_t rank = 0; rank < headers_.size(); ++rank) {
    result.progress.calls =
        std::max(result.progress.calls, static_cast<std::uint64_t>(all[2 * rank]));
    result.progress.splits =
        std::max(result.progress.splits, static_cast<std::uint32_t>(all[2 * rank + 1]));
  }
  result.refused = std::exchange(refused_, std::nullopt);
  return result;
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
    case Collective::refusal:
      refused_ = words_of_refusal({});
      return;
    default:  // a barrier is done with the headers
      if (traits_of(header.collective).buffers != BufferShape::none) take_part_with_buffers(header);
  }
}

// The same call with values that change nothing.
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
  Scratch input(header.type, inputs);
  const Scratch output(header.type, shape == BufferShape::in_place ? 0 : outputs);
  if (traits_of(header.collective).reduces) input.make_neutral(header.op);
  call.input = input.buffer();
  call.output = shape == BufferShape::in_place ? input.buffer() : output.buffer();
  inner_->execute(call);
}

// The counts by rank that the active ranks have told each other.
void NegotiatedBackend::set_counts(CollectiveCall& call) {
  const std::size_t size = headers_.size();
  call.receive_counts.resize(size);
  if (call.collective == Collective::all_gather_uneven) {
    inner_->execute(
        CollectiveCall::broadcast(std::span(call.receive_counts), first_active_rank(headers_)));
    return;
  }
  const auto all_counts = gather_counts(std::vector<std::int64_t>(2 * size));
  check_all_to_all_counts(all_counts);
  const auto rank = static_cast<std::size_t>(topology().rank);
  call.send_counts.resize(size);
  // What every rank expects from this one, and what it sends here; of joined ranks both are 0.
  for (std::size_t peer = 0; peer < size; ++peer) {
    call.send_counts[peer] = all_counts[peer * 2 * size + size + rank];
    call.receive_counts[peer] = all_counts[peer * 2 * size + rank];
  }
}

}  // namespace kolo
