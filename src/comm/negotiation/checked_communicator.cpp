#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/communicator_group.h"
#include "comm/negotiation/negotiated_backend.h"
#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"

// Calls that only a checked communicator has, and join().
namespace kolo {

namespace {

std::shared_ptr<NegotiatedBackend> negotiated(const Communicator::Group& group) {
  return std::dynamic_pointer_cast<NegotiatedBackend>(group.backend);
}

// Raises a number on which other threads may be counting on.
template <typename T>
void raise_to(std::atomic<T>& number, T least) {
  T present = number.load();
  while (present < least && !number.compare_exchange_weak(present, least)) {
  }
}

}  // namespace

bool Communicator::is_checked() const {
  return negotiated(*group_) != nullptr;
}

Communicator Communicator::checked() const {
  if (is_checked()) return *this;
  const Communicator result(std::make_shared<Group>(
      std::make_shared<NegotiatedBackend>(group_->backend), group_->executor, group_->sequence));
  result.group_->identity = group_->identity;
  result.group_->companions = group_->companions;
  result.group_->listeners = group_->listeners;
  return result;
}

int Communicator::active_ranks() const {
  const auto backend = negotiated(*group_);
  return backend ? backend->active_ranks() : size();
}

std::uint64_t Communicator::joins() const {
  const auto backend = negotiated(*group_);
  return backend ? backend->joins() : 0;
}

void Communicator::require_all_ranks(const std::string& words) const {
  if (active_ranks() < size()) throw Error(words);
}

namespace {

// Takes part in a set until all ranks have joined it, also after an Error of the others' calls:
// this rank is joined still in the communicator that the set was made from.
void join_to_the_end(const Communicator& set) {
  std::exception_ptr first;
  while (true) {
    try {
      (void)set.join();
      break;
    } catch (const NegotiationError&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// Waits until all ranks have joined the sets as well, but for sets that some have let go of, where
// calls are CommunicationErrors.
void end_services(const std::vector<std::shared_ptr<Communicator::Group>>& served) {
  std::exception_ptr first;
  for (const auto& set : served) {
    try {
      std::exchange(set->service, std::nullopt)->wait();
    } catch (const CommunicationError&) {
      continue;
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

// Takes part in the sets' calls, in each on its own thread.
void Communicator::serve_sets() const {
  auto sets = group_->sets.present();
  const auto add = [&](const std::vector<std::shared_ptr<Group>>& more) {
    for (const auto& set : more) {
      if (std::ranges::find(sets, set) == sets.end()) sets.push_back(set);
    }
  };
  add(group_->served);
  add(group_->companions->of_kind(true));  // those of other checked handles, too
  if (!sets.empty() && !capabilities().concurrent) {
    throw Error(fmt::format(
        "comm: join: {} sets of ranks were made from this communicator, in which the others may "
        "call collectives too; a joined rank can take part in several communicators only where MPI "
        "grants the thread level multiple, not {}; let the sets go before the join, or ask for "
        "that level",
        sets.size(), capabilities().thread_level));
  }
  for (const auto& set : sets) {
    if (set->service) continue;
    // The set waits for its tasks, which must not own it: it can't be destroyed on its own thread.
    const Communicator borrowed(std::shared_ptr<Group>(std::shared_ptr<Group>(), set.get()));
    set->service = set->executor->submit([borrowed] { join_to_the_end(borrowed); });
  }
  group_->served = std::move(sets);
}

int Communicator::join() const {
  const auto backend = negotiated(*group_);
  if (!backend) {
    throw Error(
        "comm: join: this communicator's calls are not negotiated, so a rank can't know what the "
        "others do; use communicator.checked(), on all ranks and for all calls");
  }
  // Calls in all orders: in one order alone the ranks may all have made equally many.
  std::uint64_t calls_elsewhere = 0;
  for (const auto& companion : group_->companions->of_kind(true))
    calls_elsewhere += companion->sequence->calls;
  serve_sets();
  NegotiatedBackend::JoinResult result;
  auto& sequence = *group_->sequence;
  group_->run(CollectiveCall::of(Collective::join), {}, [&] {
    result = backend->join({.calls = sequence.calls,
                            .splits = sequence.splits,
                            .all_calls = sequence.calls + calls_elsewhere});
  });
  raise_to(sequence.calls, result.progress.calls);
  raise_to(sequence.splits, result.progress.splits);
  end_services(std::exchange(group_->served, {}));
  return result.last_rank;
}

}  // namespace kolo
