#include "comm/communicator_group.h"

#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "comm/messages.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"

namespace kolo {

namespace {

using SharedListeners = std::shared_ptr<const Communicator::Group::Listeners>;

void tell_end(const SharedListeners& listeners, const CollectiveCall& call, bool has_failed) {
  for (const auto& listener : *listeners) listener->on_finish(call, has_failed);
}

// Work::State::on_wait of calls: tells their listeners.
std::function<void(bool)> tell_waiting(SharedListeners listeners, std::vector<CallHeader> calls) {
  if (listeners->empty()) return nullptr;
  return [listeners = std::move(listeners), calls = std::move(calls)](bool begins) {
    for (const auto& listener : *listeners) {
      for (const CallHeader& call : calls) listener->on_wait(call, begins);
    }
  };
}

// Does a call, blocking or not, on whatever thread, and tells the listeners. A device may go on
// with the call afterwards: then they hear of the end when it comes, and `owner` of the buffers is
// kept until then. `is_handed_over`: the device has yet to come to it, and they hear of its start
// then, too.
void perform(Backend& backend, const CollectiveCall& call, const SharedListeners& listeners,
             const Communicator::Group::Action& action, const std::shared_ptr<const void>& owner,
             bool is_handed_over = false) {
  const auto tell_start = [&] {
    for (const auto& listener : *listeners) listener->on_start(call);
  };
  if (call.order && !is_handed_over) backend.await_input(call);
  if (!is_handed_over) tell_start();
  try {
    if (action)
      action();
    else
      backend.execute(call);
  } catch (...) {
    if (is_handed_over) tell_start();
    tell_end(listeners, call, true);
    throw;
  }
  if (call.order) {
    // Weak: a device that never comes to its end must not keep them, because they keep the device.
    const std::vector<std::weak_ptr<CollectiveListener>> later(listeners->begin(),
                                                               listeners->end());
    const auto tell_later = [later, call](const auto& tell) {
      for (const auto& listener : later) {
        if (const auto present = listener.lock()) tell(*present, call);
      }
    };
    auto started = [tell_later, is_handed_over] {
      if (is_handed_over)
        tell_later([](auto& listener, const auto& begun) { listener.on_start(begun); });
    };
    auto finished = [tell_later, owner](bool has_failed) {
      tell_later([&](auto& listener, const auto& ended) { listener.on_finish(ended, has_failed); });
    };
    if (backend.follow(call, std::move(started), std::move(finished))) return;
  }
  if (is_handed_over) tell_start();
  tell_end(listeners, call, false);
}

}  // namespace

Communicator::Group::Group(std::shared_ptr<Backend> the_backend,
                           std::shared_ptr<Executor> the_executor,
                           std::shared_ptr<Sequence> the_sequence)
    : backend(std::move(the_backend)),
      executor(std::move(the_executor)),
      sequence(the_sequence ? std::move(the_sequence) : std::make_shared<Sequence>(backend)),
      exceptions_at_start_(std::uncaught_exceptions()) {
  identity.job_rank = backend->topology().rank;
  identity.job_ranks.resize(static_cast<std::size_t>(backend->topology().size));
  std::iota(identity.job_ranks.begin(), identity.job_ranks.end(), 0);
}

// Leaks the members, in a fork: their destructors would wait for threads that are not there, and
// tell the other ranks that this one is gone.
void Communicator::Group::abandon() {
  std::tuple members(std::move(listeners), std::move(service), std::move(served),
                     std::move(backend), std::move(executor), std::move(sequence),
                     std::move(companions));
  (void)std::make_unique<decltype(members)>(std::move(members)).release();
}

void Communicator::Group::require_own_process(const CallHeader& call) const {
  if (executor->is_in_own_process()) return;
  throw StateError(fmt::format(
      "comm: {}: this process is a fork of rank {}'s, which alone is in the job; let the fork "
      "work without communication, or fork before kolo is initialized",
      call.describe(), identity.job_rank));
}

Communicator::Group::~Group() {
  if (!executor->is_in_own_process()) {
    abandon();
    return;
  }
  const auto has_pending_transfers = [&] {
    return sequence.use_count() == 1 && sequence->transfers && sequence->transfers->is_pending();
  };
  // Ends the job where an exception leaves this rank while collectives are pending: the others may
  // never come to them, so waiting might never end.
  if (std::uncaught_exceptions() > exceptions_at_start_ &&
      (executor->is_pending() || has_pending_transfers())) {
    const auto reason = fmt::format(
        "rank {}: an exception leaves while collectives are pending to which the other ranks may "
        "never come",
        identity.job_rank);
    print_line(fmt::format("{}, so the {}", reason,
                           backend->ends_processes() ? "job ends" : "session is broken"));
    backend->abort(1, reason);
  }
  // Pending tasks may still use this group.
  if (executor->is_pending()) {
    try {
      executor->submit([] {}).wait();
    } catch (const StateError&) {  // who closes it waits for them
    }
  }
  // Waits for pending transfers, of which the other ends may not have got all bytes.
  while (has_pending_transfers()) {
    if (sequence->transfers->is_driven_by_waiters())
      go_on_with_transfers();
    else
      sequence->transfers->wait_until_idle();
  }
  if (sequence.use_count() > 1) return;
  CollectiveCall member;
  identity.put_into(member);
  for (const auto& listener : *listeners->get()) listener->on_leave(member);
}

void Communicator::Group::prepare(CollectiveCall& call, CallOptions& options) {
  const Topology& topology = backend->topology();
  require_own_process(call);
  check_arguments(call, topology);
  call.divisor = topology.size;
  // A task's own calls don't take numbers from the common sequence: the ranks' own threads make
  // calls meanwhile, so the numbers would differ.
  if (executor->is_inside_task() && sequence->task != 0) {
    call.number = sequence->task;
    call.in_task = ++sequence->calls_in_task;
  } else {
    call.number = ++sequence->calls;
  }
  identity.put_into(call);
  call.name = std::move(options.name);
  if (call.memory == MemoryKind::host) return;
  call.order = std::make_shared<DeviceOrder>();
  call.order->stream = call.output.stream;
  backend->begin_on_device(call);
}

// Does the same as submit() and wait(), but on this thread where nothing is pending: going over to
// the communication thread and back takes tens of microseconds, a small collective less than one.
void Communicator::Group::run(CollectiveCall call, CallOptions options, const Action& action) {
  if (call.memory == MemoryKind::device) return submit(std::move(call), std::move(options)).wait();
  prepare(call, options);
  const auto present = listeners->get();
  const auto perform_now = [&] { perform(*backend, call, present, action, nullptr); };
  const auto on_wait = [&](bool begins) {
    for (const auto& listener : *present) listener->on_wait(call, begins);
  };
  executor->run(std::ref(perform_now), std::ref(on_wait));
}

Work Communicator::Group::submit(CollectiveCall call, CallOptions options, Action action) {
  prepare(call, options);
  if (call.collective == Collective::task) {
    // The group waits for its tasks, so they need not own it.
    action = [numbers = sequence.get(), number = call.number, task = std::move(action)] {
      numbers->task = number;
      numbers->calls_in_task = 0;
      try {
        task();
      } catch (...) {
        numbers->task = 0;
        throw;
      }
      numbers->task = 0;
    };
  }
  auto present = listeners->get();
  for (const auto& listener : *present) listener->on_submit(call);
  // Handed over by the thread that asks, so that several communicators' calls come to the device in
  // the order of the program, the same on all ranks.
  if (call.order && backend->hands_over(call)) {
    const auto order = call.order;
    return executor->hand_over([&] { perform(*backend, call, present, {}, options.owner, true); },
                               order);
  }
  auto order = call.order;
  auto on_wait = tell_waiting(present, {call});
  return executor->submit(
      [backend = backend, owner = std::move(options.owner), present = std::move(present),
       call = std::move(call),
       action = std::move(action)] { perform(*backend, call, present, action, owner); },
      std::move(order), std::move(on_wait));
}

// Does one step of transfers, between collectives, where only a waiting thread may call MPI.
void Communicator::Group::go_on_with_transfers() {
  std::vector<std::shared_ptr<const void>> done;
  bool has_progress = false;
  const auto go_on = [&] {
    has_progress = sequence->transfers->go_on();
    done = sequence->transfers->take_done();
  };
  executor->run(go_on);
  if (!has_progress) std::this_thread::yield();
}

namespace {

// Message of a rank to itself.
struct OwnMessage {
  ConstBuffer from;
  Buffer to;
};

OwnMessage own_message(const CollectiveCall& sent, const CollectiveCall& received) {
  const auto& from = sent.input;
  const auto& to = received.output;
  const bool has_memory = from.count == 0 || (from.data != nullptr && to.data != nullptr);
  if (from.count == to.count && from.type == to.type && has_memory) return {from, to};
  throw Error(
      fmt::format("comm: exchange: rank {} sends itself {} {} at {} and receives {} {} at {}, tag "
                  "{}; both must be alike",
                  sent.peer, from.count, name_of(from.type), from.data, to.count, name_of(to.type),
                  to.data, sent.tag));
}

// Takes the messages of a rank to itself whose both halves are among the calls.
std::vector<OwnMessage> take_own_messages(std::vector<CollectiveCall>& calls, int rank) {
  std::vector<OwnMessage> messages;
  std::vector<bool> is_taken(calls.size());
  const auto is_half = [&](std::size_t number, Collective which) {
    const auto& call = calls[number];
    return call.collective == which && call.peer == rank && call.memory == MemoryKind::host &&
           !is_taken[number];
  };
  for (std::size_t to = 0; to < calls.size(); ++to) {
    for (std::size_t from = 0; from < calls.size() && is_half(to, Collective::receive); ++from) {
      if (!is_half(from, Collective::send) || calls[from].tag != calls[to].tag) continue;
      messages.push_back(own_message(calls[from], calls[to]));
      is_taken[from] = is_taken[to] = true;
    }
  }
  std::size_t number = 0;
  std::erase_if(calls, [&](const CollectiveCall&) { return is_taken[number++]; });
  return messages;
}

}  // namespace

Work Communicator::Group::transfer(std::vector<CollectiveCall> calls, const CallOptions& options) {
  const auto own = take_own_messages(calls, backend->topology().rank);
  for (const CollectiveCall& call : calls) {
    require_own_process(call);
    check_arguments(call, backend->topology());
  }
  for (const auto& [from, to] : own)
    if (from.count > 0) std::memmove(to.data, from.data, from.bytes());
  if (calls.empty()) return {};
  const auto& desk = sequence->transfers;
  if (!desk) {
    throw Error(fmt::format("comm: {}: ranks on {} have no transfers; use a collective",
                            name_of(calls.front().collective), backend->capabilities().backend));
  }
  std::vector<std::shared_ptr<TransferStaging>> stagings;
  for (CollectiveCall& call : calls) {
    call.number = desk->next_number();
    identity.put_into(call);
    call.peer_in_job = identity.job_ranks[static_cast<std::size_t>(call.peer)];
    call.name = options.name;
    auto& staging = stagings.emplace_back();
    if (call.memory == MemoryKind::host) continue;
    call.order = std::make_shared<DeviceOrder>();
    call.order->stream =
        call.collective == Collective::send ? call.input.stream : call.output.stream;
    staging = backend->stage(call);
  }
  Action driver;
  // The driver needn't keep the group: a waiting thread has a handle.
  if (desk->is_driven_by_waiters()) driver = [this] { go_on_with_transfers(); };
  const auto present = listeners->get();
  auto on_wait = tell_waiting(present, {calls.begin(), calls.end()});
  return desk->post(std::move(calls), stagings, *present, options.owner, std::move(driver),
                    std::move(on_wait));
}

std::vector<std::shared_ptr<Communicator::Group>> Communicator::Group::Companions::of_kind(
    bool is_checked) {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Group>> found;
  for (const auto& group : groups) {
    if (Communicator(group).is_checked() == is_checked) found.push_back(group);
  }
  return found;
}

// Ranks may let go of an order at different times, so they agree on the first after the last that
// any of them still uses.
Communicator Communicator::with_own_order(const std::string& name) const {
  if (size() == 1 || !capabilities().concurrent) return *this;
  std::int64_t first_free = 0;
  {
    const auto made = group_->companions->of_kind(is_checked());
    constexpr long own_references = 2;  // in the list, and here
    for (std::size_t slot = 0; slot < made.size(); ++slot) {
      if (made[slot].use_count() > own_references) first_free = narrow<std::int64_t>(slot) + 1;
    }
  }
  all_reduce(std::span(&first_free, 1), ReduceOp::max, {.name = "an order of its own"});
  require_all_ranks(
      "comm: an order of its own while ranks have joined: they can't take part in new ones; make "
      "reducers and optimizers before the first join");
  const auto made = group_->companions->of_kind(is_checked());
  if (const auto slot = static_cast<std::size_t>(first_free); slot < made.size())
    return Communicator(made[slot]);
  auto companion = make_set(0, rank(), name).value();
  companion.group_->listeners = group_->listeners;
  const std::lock_guard lock(group_->companions->mutex);
  group_->companions->groups.push_back(companion.group_);
  return companion;
}

}  // namespace kolo
