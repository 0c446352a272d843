#include "comm/negotiation/compare_calls.h"

#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "comm/negotiation/call_comparison.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

using Execute = std::function<void(const CollectiveCall&)>;

template <typename T>
std::vector<T> gather_from_all(std::span<const T> mine, int size, const Execute& execute) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(size));
  execute(CollectiveCall::all_gather(
      ConstBuffer(mine.data(), narrow<std::int64_t>(mine.size_bytes()), DataType::uint8),
      Buffer(all.data(), narrow<std::int64_t>(all.size() * sizeof(T)), DataType::uint8)));
  return all;
}

// The greatest of all fingerprints and of their complements: these belong to one number where there
// is but one.
bool are_alike(const CallHeader& mine, const Execute& execute) {
  const auto fingerprint = static_cast<std::int64_t>(fingerprint_of(mine));
  std::array<std::int64_t, 2> greatest = {fingerprint, ~fingerprint};
  execute(CollectiveCall::all_reduce(std::span(greatest), ReduceOp::max));
  return greatest[0] == ~greatest[1];
}

// Whether everybody expects what is sent to it.
bool is_balanced(const CallHeader& mine, int size, const Execute& execute) {
  const auto all = gather_from_all(std::span(&mine.fingerprint, 1), size, execute);
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0}) == 0;
}

}  // namespace

void compare_calls(const CollectiveCall& call, int rank, int size, const Execute& execute) {
  const CallHeader mine = with_counts(call, rank);
  const bool is_exchange = traits_of(call.collective).buffers == BufferShape::exchanged_uneven;
  const bool is_same = are_alike(mine, execute);
  if (is_same && (!is_exchange || is_balanced(mine, size, execute))) return;
  const auto headers = gather_from_all(std::span(&mine, 1), size, execute);
  if (!is_same && !differ_only_in_counts(headers)) throw Error(describe_mismatch(headers));
  auto counts = call.receive_counts;
  if (is_exchange) counts.insert(counts.begin(), call.send_counts.begin(), call.send_counts.end());
  const auto all_counts = gather_from_all(std::span<const std::int64_t>(counts), size, execute);
  throw Error(is_exchange ? describe_exchange_mismatch(headers, all_counts)
                          : describe_count_mismatch(headers, all_counts));
}

}  // namespace kolo
