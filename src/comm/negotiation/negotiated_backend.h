#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/gather.h"
#include "kolo/base/error.h"
#include "kolo/comm/backend.h"

namespace kolo {

// Whether the rank has made this call, and not joined.
[[nodiscard]] inline bool is_active(const CallHeader& header) {
  return header.collective != Collective::join;
}

// First of the headers by rank whose rank is active; -1: all have joined.
[[nodiscard]] int first_active_rank(std::span<const CallHeader> headers);

// Header of a call, with a fingerprint of its counts by rank, which shows whether they fit those of
// the others.
[[nodiscard]] CallHeader with_counts(const CollectiveCall& call, int rank);

// Every rank's counts, one rank after another. Collective.
using GatherCounts = std::function<std::vector<std::int64_t>()>;

// Message on active ranks' calls that differ: who calls what, first what most of them call. Where
// only the counts by rank differ these are gathered, and the message says who passes which.
[[nodiscard]] std::string describe_mismatch(std::span<const CallHeader> headers,
                                            const GatherCounts& gather_counts);

// Names an active rank that sends another one something else than that expects, in an all-to-all;
// empty: there is none. `all_counts`: by rank, what it sends to each, then expects from each.
[[nodiscard]] std::string describe_exchange_mismatch(std::span<const CallHeader> headers,
                                                     std::span<const std::int64_t> all_counts);

// Compares a call with those that the other ranks make at the same time; an Error in the same words
// on all of them where they differ, before anything is moved. Costs an all-reduce of 16 bytes; for
// an all-to-all one of 8 besides. `execute` does collectives of these ranks.
void compare_calls(const CollectiveCall& call, int rank, int size, const Execute& execute);

// An Error that all ranks have found in a negotiation: they may go on calling.
class NegotiationError : public Error {
 public:
  using Error::Error;
};

// Back end over which the ranks first gather the headers of their calls, in one small all-gather of
// the back end below (half a microsecond between two ranks of one machine; a barrier is the header
// alone). A call in which they differ is an Error on all of them, whatever the back end.
//
// Every header says whether its rank has joined, so all ranks take the same path: averages are
// those of the active ranks, counts by rank travel in one more small collective. An Error in the
// negotiation is thrown on all ranks, the joined ones included, and makes them active again.
class NegotiatedBackend final : public Backend {
 public:
  explicit NegotiatedBackend(std::shared_ptr<Backend> inner);

  [[nodiscard]] const Topology& topology() const override { return inner_->topology(); }
  [[nodiscard]] Capabilities capabilities() const override { return inner_->capabilities(); }

  void execute(const CollectiveCall& call) override;
  // The negotiation waits for other ranks, so nothing is handed over at once.
  void begin_on_device(CollectiveCall& call) const override { inner_->begin_on_device(call); }
  void await_input(const CollectiveCall& call) const override { inner_->await_input(call); }
  [[nodiscard]] bool follow(const CollectiveCall& call, std::function<void()> started,
                            std::function<void(bool)> finished) override {
    return inner_->follow(call, std::move(started), std::move(finished));
  }
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return inner_->transfers(); }
  [[nodiscard]] std::shared_ptr<TransferStaging> stage(CollectiveCall& call) const override {
    return inner_->stage(call);
  }
  void leave() noexcept override { inner_->leave(); }
  void abort(int exit_code, std::string_view reason) noexcept override {
    inner_->abort(exit_code, reason);
  }
  [[nodiscard]] bool ends_processes() const override { return inner_->ends_processes(); }
  [[nodiscard]] bool is_broken() const override { return inner_->is_broken(); }

  // Position of a rank in its communicator's sequence of calls. Joined ranks miss some; after a
  // join everyone gets that of the furthest, so that numbers agree again.
  struct Progress {
    std::uint64_t calls = 0;
    std::uint32_t splits = 0;
    std::uint64_t all_calls = 0;  // with those elsewhere: of ranks that join together, who is last
  };
  struct JoinResult {
    int last_rank = 0;
    Progress progress;
  };

  // Takes part in what the others do until they have all joined.
  [[nodiscard]] JoinResult join(Progress mine);

  // Number of ranks that contributed to the last collective.
  [[nodiscard]] int active_ranks() const { return active_ranks_.load(std::memory_order_relaxed); }

  // Number of times that joined ranks have become active again.
  [[nodiscard]] std::uint64_t joins() const { return joins_.load(std::memory_order_relaxed); }

 private:
  void negotiate(const CallHeader& mine, std::span<const std::int64_t> counts = {});
  void exchange(const CallHeader& mine);
  void check_calls(std::span<const std::int64_t> counts);
  [[noreturn]] void fail(const std::string& message);
  void activate_all();
  [[nodiscard]] bool has_joined_ranks() const { return active_ranks() < topology().size; }
  [[nodiscard]] JoinResult end_of_join(const Progress& mine);

  [[nodiscard]] std::vector<std::int64_t> gather_counts(std::span<const std::int64_t> mine) const;
  void agree_on_exchange(const CollectiveCall& call);

  // Part of a joined rank in the call that the active ranks make.
  void take_part(const CallHeader& header);
  void take_part_with_buffers(const CallHeader& header);
  void set_counts(CollectiveCall& call);

  std::shared_ptr<Backend> inner_;
  std::vector<CallHeader> headers_;  // of the present call, by rank
  std::vector<bool> joined_;         // by rank
  int last_joined_ = 0;  // of those that joined in the last round, the one that has made most calls
  std::atomic<int> active_ranks_;
  std::atomic<std::uint64_t> joins_ = 0;
};

}  // namespace kolo
