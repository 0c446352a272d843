#include "comm/negotiation/negotiated_backend.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"

// The negotiation, and the collectives of active ranks; those of joined ones are in
// joined_rank.cpp.
namespace kolo {

namespace {

CallHeader header_of(Collective collective, const ConstBuffer& buffer, std::uint32_t detail = 0) {
  return {.collective = collective,
          .type = static_cast<std::uint32_t>(buffer.type),
          .detail = detail,
          .count = buffer.count};
}

bool differ_only_in_counts(std::span<const CallHeader> headers) {
  const CallHeader& first = headers[static_cast<std::size_t>(first_active_rank(headers))];
  return first.collective == Collective::all_gather_uneven &&
         std::all_of(headers.begin(), headers.end(), [&](CallHeader header) {
           header.fingerprint = first.fingerprint;
           return !header.is_active() || is_same_call(header, first);
         });
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
  inner_->all_gather(ConstBuffer(&mine, bytes, DataType::uint8),
                     Buffer(headers_.data(), size * bytes, DataType::uint8));
  const auto active = std::count_if(headers_.begin(), headers_.end(),
                                    [](const CallHeader& header) { return header.is_active(); });
  if (active > 0) active_ranks_.store(static_cast<int>(active), std::memory_order_relaxed);
}

// The highest of those that have made equally many calls.
void NegotiatedBackend::note_joined() {
  std::uint64_t most_calls = 0;
  for (std::size_t rank = 0; rank < headers_.size(); ++rank) {
    if (headers_[rank].is_active() || joined_[rank]) continue;
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
    return !header.is_active() || is_same_call(header, first);
  });
  if (!is_same && differ_only_in_counts(headers_)) {
    std::vector<std::int64_t> mine(counts.begin(), counts.end());
    mine.resize(headers_.size());  // a joined rank has none
    fail(describe_count_mismatch(headers_, gather_counts(mine)));
  }
  if (!is_same) fail(describe_mismatch(headers_));
  if (first.collective == Collective::broadcast && !headers_.at(first.detail).is_active()) {
    fail(
        fmt::format("comm: {}: rank {} has joined and has no data to send; broadcast from a rank "
                    "that is still active, or after the join from the rank that join() returns",
                    first.describe(), first.detail));
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
  negotiate({.collective = Collective::barrier, .detail = refusal});
  throw NegotiationError(words_of_refusal(words));
}

// Those of the first active rank.
std::string NegotiatedBackend::words_of_refusal(std::string words) {
  const int first = first_active_rank(headers_);
  auto length = narrow<std::int64_t>(words.size());
  inner_->broadcast(std::span(&length, 1), first);
  words.resize(static_cast<std::size_t>(length));
  inner_->broadcast(Buffer(words.data(), length, DataType::uint8), first);
  return words;
}

std::vector<std::int64_t> NegotiatedBackend::gather_counts(
    std::span<const std::int64_t> mine) const {
  std::vector<std::int64_t> all(mine.size() * headers_.size());
  inner_->all_gather(mine, std::span(all));
  return all;
}

void NegotiatedBackend::all_reduce(const Buffer& buffer, ReduceOp op, int) {
  negotiate(header_of(Collective::all_reduce, buffer, static_cast<std::uint32_t>(op)));
  inner_->all_reduce(buffer, op, active_ranks());
}

void NegotiatedBackend::broadcast(const Buffer& buffer, int root) {
  negotiate(header_of(Collective::broadcast, buffer, static_cast<std::uint32_t>(root)));
  inner_->broadcast(buffer, root);
}

void NegotiatedBackend::all_gather(const ConstBuffer& input, const Buffer& output) {
  negotiate(header_of(Collective::all_gather, input));
  inner_->all_gather(input, output);
}

void NegotiatedBackend::all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                                          std::span<const std::int64_t> counts) {
  auto header = header_of(Collective::all_gather_uneven, output);
  header.fingerprint = fingerprint_of(counts);
  negotiate(header, counts);
  if (has_joined_ranks()) {
    std::vector<std::int64_t> copy(counts.begin(), counts.end());
    inner_->broadcast(std::span(copy), first_active_rank(headers_));
  }
  inner_->all_gather_uneven(input, output, counts);
}

void NegotiatedBackend::reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op,
                                       int) {
  negotiate(header_of(Collective::reduce_scatter, input, static_cast<std::uint32_t>(op)));
  inner_->reduce_scatter(input, output, op, active_ranks());
}

void NegotiatedBackend::all_to_all(const ConstBuffer& input,
                                   std::span<const std::int64_t> send_counts, const Buffer& output,
                                   std::span<const std::int64_t> receive_counts) {
  auto header = header_of(Collective::all_to_all, input);
  header.fingerprint = all_to_all_fingerprint(topology().rank, send_counts, receive_counts);
  negotiate(header);
  std::uint64_t balance = 0;
  for (const CallHeader& other : headers_) balance += other.fingerprint;
  if (has_joined_ranks() || balance != 0) {
    std::vector<std::int64_t> mine(send_counts.begin(), send_counts.end());
    mine.insert(mine.end(), receive_counts.begin(), receive_counts.end());
    check_all_to_all_counts(gather_counts(mine));
  }
  inner_->all_to_all(input, send_counts, output, receive_counts);
}

// `all_counts`: of every rank what it sends to each, then what it expects from each.
void NegotiatedBackend::check_all_to_all_counts(std::span<const std::int64_t> all_counts) {
  const std::size_t size = headers_.size();
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      const auto sent = all_counts[from * 2 * size + to];
      const auto expected = all_counts[to * 2 * size + size + from];
      if (sent == expected || !headers_[from].is_active() || !headers_[to].is_active()) continue;
      fail(fmt::format(
          "comm: all-to-all: rank {} sends {} {} to rank {}, which expects {}; "
          "receive_counts[r] must be what rank r sends, for example from an "
          "all-to-all of the counts",
          from, sent, name_of(static_cast<DataType>(headers_[from].type)), to, expected));
    }
  }
}

void NegotiatedBackend::barrier() {
  // Everybody's header is here, so everybody has come.
  negotiate({.collective = Collective::barrier});
}

std::shared_ptr<std::byte> NegotiatedBackend::allocate(std::size_t bytes) {
  negotiate_allocation(MemoryKind::own, bytes);
  return inner_->allocate(bytes);
}

std::vector<std::shared_ptr<std::byte>> NegotiatedBackend::allocate_shared(std::size_t bytes) {
  negotiate_allocation(MemoryKind::shared, bytes);
  return inner_->allocate_shared(bytes);
}

std::shared_ptr<std::byte> NegotiatedBackend::allocate_for_node(std::size_t bytes) {
  negotiate_allocation(MemoryKind::for_node, bytes);
  return inner_->allocate_for_node(bytes);
}

void NegotiatedBackend::negotiate_allocation(MemoryKind kind, std::size_t bytes) {
  negotiate(
      {.collective = Collective::allocate, .memory = kind, .count = narrow<std::int64_t>(bytes)});
}

std::shared_ptr<Backend> NegotiatedBackend::split(int color, int key) {
  negotiate({.collective = Collective::split});
  auto part = inner_->split(color, key);
  return part ? std::make_shared<NegotiatedBackend>(std::move(part)) : nullptr;
}

}  // namespace kolo
