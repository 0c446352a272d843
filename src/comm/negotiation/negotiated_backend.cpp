#include "comm/negotiation/negotiated_backend.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"

// The negotiation, and the collectives of active ranks; those of joined ones are in
// joined_rank.cpp.
namespace kolo {

namespace {

bool differ_only_in_counts(std::span<const CallHeader> headers) {
  const CallHeader& first = headers[static_cast<std::size_t>(first_active_rank(headers))];
  return std::all_of(headers.begin(), headers.end(), [&](const CallHeader& header) {
    const auto difference = first_difference(first, header);
    return !is_active(header) || difference.empty() || difference == counts_by_rank;
  });
}

// What ranks can't see in the call itself: whether their counts by rank fit each other.
std::uint64_t fingerprint_of_counts(const CollectiveCall& call, int rank) {
  switch (traits_of(call.collective).buffers) {
    case BufferShape::gathered_uneven:
      return fingerprint_of(call.receive_counts);
    case BufferShape::exchanged_uneven:
      return all_to_all_fingerprint(rank, call.send_counts, call.receive_counts);
    default:
      return 0;
  }
}

}  // namespace

NegotiatedBackend::NegotiatedBackend(std::shared_ptr<Backend> inner)
    : inner_(std::move(inner)),
      headers_(static_cast<std::size_t>(inner_->topology().size)),
      joined_(headers_.size()),
      active_ranks_(inner_->topology().size) {}

void NegotiatedBackend::negotiate(const CallHeader& mine, std::span<const std::int64_t> counts) {
  exchange(mine);
  note_joined();
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
}

// The highest of those that have made equally many calls.
void NegotiatedBackend::note_joined() {
  std::uint64_t most_calls = 0;
  for (std::size_t rank = 0; rank < headers_.size(); ++rank) {
    if (is_active(headers_[rank]) || joined_[rank]) continue;
    joined_[rank] = true;
    if (headers_[rank].fingerprint < most_calls) continue;
    most_calls = headers_[rank].fingerprint;
    last_joined_ = static_cast<int>(rank);
  }
}

// Decides by what all ranks have seen, so all of them throw or none does.
void NegotiatedBackend::check_calls(std::span<const std::int64_t> counts) {
  const CallHeader& first = headers_[static_cast<std::size_t>(first_active_rank(headers_))];
  const bool is_same = std::all_of(headers_.begin(), headers_.end(), [&](const CallHeader& header) {
    return !is_active(header) || first_difference(first, header).empty();
  });
  if (!is_same && differ_only_in_counts(headers_)) {
    std::vector<std::int64_t> mine(counts.begin(), counts.end());
    mine.resize(headers_.size());  // a joined rank has none
    fail(describe_count_mismatch(headers_, gather_counts(mine)));
  }
  if (!is_same) fail(describe_mismatch(headers_));
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

void NegotiatedBackend::refuse(const std::string& words) {
  negotiate({.collective = Collective::refusal});
  throw NegotiationError(words_of_refusal(words));
}

// Those of the first active rank.
std::string NegotiatedBackend::words_of_refusal(std::string words) {
  const int first = first_active_rank(headers_);
  auto length = narrow<std::int64_t>(words.size());
  inner_->execute(CollectiveCall::broadcast(std::span(&length, 1), first));
  words.resize(static_cast<std::size_t>(length));
  inner_->execute(CollectiveCall::broadcast(Buffer(words.data(), length, DataType::uint8), first));
  return words;
}

std::vector<std::int64_t> NegotiatedBackend::gather_counts(
    std::span<const std::int64_t> mine) const {
  std::vector<std::int64_t> all(mine.size() * headers_.size());
  inner_->execute(CollectiveCall::all_gather(mine, std::span(all)));
  return all;
}

void NegotiatedBackend::execute(const CollectiveCall& call) {
  CallHeader header = call;
  header.fingerprint = fingerprint_of_counts(call, topology().rank);
  negotiate(header, call.receive_counts);
  const auto shape = traits_of(call.collective).buffers;
  // Everybody's header is here, so everybody has come, which is all of a barrier.
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

// Everybody expects what is sent to it, joined ranks apart; if they don't, the counts tell who.
void NegotiatedBackend::agree_on_exchange(const CollectiveCall& call) {
  std::uint64_t balance = 0;
  for (const CallHeader& header : headers_) balance += header.fingerprint;
  if (!has_joined_ranks() && balance == 0) return;
  auto mine = call.send_counts;
  mine.insert(mine.end(), call.receive_counts.begin(), call.receive_counts.end());
  check_all_to_all_counts(gather_counts(mine));
}

// `all_counts`: of every rank what it sends to each, then what it expects from each.
void NegotiatedBackend::check_all_to_all_counts(std::span<const std::int64_t> all_counts) {
  const std::size_t size = headers_.size();
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      const auto sent = all_counts[from * 2 * size + to];
      const auto expected = all_counts[to * 2 * size + size + from];
      if (sent == expected || !is_active(headers_[from]) || !is_active(headers_[to])) continue;
      fail(
          fmt::format("comm: all-to-all: rank {} sends {} {} to rank {}, which expects {}; "
                      "receive_counts[r] must be what rank r sends, for example from an "
                      "all-to-all of the counts",
                      from, sent, name_of(headers_[from].type), to, expected));
    }
  }
}

std::vector<std::shared_ptr<std::byte>> NegotiatedBackend::allocate(const CallHeader& call) {
  negotiate(call);
  return inner_->allocate(call);
}

std::shared_ptr<Backend> NegotiatedBackend::split(int color, int key) {
  negotiate({.collective = Collective::split});
  auto part = inner_->split(color, key);
  return part ? std::make_shared<NegotiatedBackend>(std::move(part)) : nullptr;
}

}  // namespace kolo
