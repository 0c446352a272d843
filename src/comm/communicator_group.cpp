#include "comm/communicator_group.h"

#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <type_traits>
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

// For Work::State::on_wait, of calls that have the listeners.
std::function<void(bool)> tell_waiting(SharedListeners listeners, std::vector<CallHeader> calls) {
  if (listeners->empty()) return nullptr;
  return [listeners = std::move(listeners), calls = std::move(calls)](bool begins) {
    for (const auto& listener : *listeners) {
      for (const CallHeader& call : calls) listener->on_wait(call, begins);
    }
  };
}

// The listeners of a call that a device goes on with. A device that never comes to its end must not
// keep them: what keeps the device is theirs.
class LaterListeners {
 public:
  explicit LaterListeners(const SharedListeners& listeners)
      : listeners_(listeners->begin(), listeners->end()) {}

  void start(const CollectiveCall& call) const {
    for (const auto& listener : listeners_) {
      if (const auto present = listener.lock()) present->on_start(call);
    }
  }
  void finish(const CollectiveCall& call, bool has_failed) const {
    for (const auto& listener : listeners_) {
      if (const auto present = listener.lock()) present->on_finish(call, has_failed);
    }
  }

 private:
  std::vector<std::weak_ptr<CollectiveListener>> listeners_;
};

// The device goes on with it, and its listeners hear of its end when it comes. Keeps the owner of
// the buffers until then.
bool goes_on(Backend& backend, const CollectiveCall& call, const LaterListeners& listeners,
             const std::shared_ptr<const void>& owner, const std::function<void()>& started) {
  return backend.follow(call, started, [listeners, call, owner](bool has_failed) {
    listeners.finish(call, has_failed);
  });
}

// The one way in which calls are done, blocking or not, on whatever thread.
void perform(Backend& backend, const CollectiveCall& call, const SharedListeners& listeners,
             const Communicator::Group::Action& action, const std::shared_ptr<const void>& owner) {
  if (call.order) backend.await_input(call);
  for (const auto& listener : *listeners) listener->on_start(call);
  try {
    if (action)
      action();
    else
      backend.execute(call);
  } catch (...) {
    tell_end(listeners, call, true);
    throw;
  }
  if (call.order && goes_on(backend, call, LaterListeners(listeners), owner, [] {})) return;
  tell_end(listeners, call, false);
}

// One that the device does, of which the listeners are told when it does.
void perform_on_device(Backend& backend, const CollectiveCall& call,
                       const SharedListeners& listeners, const std::shared_ptr<const void>& owner) {
  const LaterListeners later(listeners);
  const auto started = [later, call] { later.start(call); };
  try {
    backend.execute(call);
  } catch (...) {
    started();
    tell_end(listeners, call, true);
    throw;
  }
  if (goes_on(backend, call, later, owner, started)) return;
  started();
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

// For a fork: destroying members would wait for threads which are not there, and tell the other
// ranks that this one is gone.
void Communicator::Group::abandon() {
  const auto keep = [](auto& member) {
    (void)std::make_unique<std::remove_reference_t<decltype(member)>>(std::move(member)).release();
  };
  keep(listeners);
  keep(service);
  keep(served);
  keep(backend);
  keep(executor);
  keep(sequence);
  keep(companions);
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
  // An exception is leaving this rank while collectives are pending for which the others can't be
  // sure to come: waiting might never end, so the job does.
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
  // Tasks that are pending may still use this group.
  if (executor->is_pending()) {
    try {
      executor->submit([] {}).wait();
    } catch (const StateError&) {  // who closes it waits for them
    }
  }
  // The other ends may not have got all bytes.
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
  // What a task calls on the communication thread must not take a number between those of calls
  // that the ranks' own threads make meanwhile: the numbers would differ.
  if (executor->is_inside_task() && sequence->task != 0) {
    call.number = sequence->task;
    call.part = ++sequence->parts;
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

// The same as submit() and wait(), but that the executor does it on this thread where nothing is
// pending. Going over to the communication thread and back takes tens of microseconds, a small
// collective less than one.
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

Communicator::Group::Action Communicator::Group::as_task(std::uint64_t number, Action task) {
  // The group waits for its tasks, so they need no share in it.
  return [place = sequence.get(), number, task = std::move(task)] {
    struct Running {
      Sequence& place;
      Running(Sequence& in, std::uint64_t call) : place(in) {
        place.task = call;
        place.parts = 0;
      }
      ~Running() { place.task = 0; }
    };
    const Running running(*place, number);
    task();
  };
}

Work Communicator::Group::submit(CollectiveCall call, CallOptions options, Action action) {
  prepare(call, options);
  if (call.collective == Collective::task) action = as_task(call.number, std::move(action));
  auto present = listeners->get();
  for (const auto& listener : *present) listener->on_submit(call);
  // By the thread that asks: so what a device is given by several communicators comes in the order
  // of the program, the same on all ranks.
  if (call.order && backend->hands_over(call)) {
    const auto order = call.order;
    return executor->hand_over([&] { perform_on_device(*backend, call, present, options.owner); },
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

// One step of transfers, between collectives, where only a waiting thread may call MPI.
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

// None for a buffer of the host's.
std::shared_ptr<TransferStaging> Communicator::Group::stage(CollectiveCall& call) const {
  if (call.memory == MemoryKind::host) return nullptr;
  const bool is_send = call.collective == Collective::send;
  call.order = std::make_shared<DeviceOrder>();
  call.order->stream = is_send ? call.input.stream : call.output.stream;
  return backend->stage(call);
}

Work Communicator::Group::transfer(std::vector<CollectiveCall> calls, const CallOptions& options) {
  for (const CollectiveCall& call : calls) {
    require_own_process(call);
    check_arguments(call, backend->topology());
  }
  if (calls.empty()) return {};
  const auto& desk = sequence->transfers;
  if (!desk) {
    throw Error(fmt::format("comm: {}: ranks on {} have no transfers; use a collective",
                            name_of(calls.front().collective), backend->capabilities().backend));
  }
  for (CollectiveCall& call : calls) {
    call.number = desk->next_number();
    identity.put_into(call);
    call.peer_in_job = identity.job_ranks[static_cast<std::size_t>(call.peer)];
    call.name = options.name;
  }
  std::vector<std::shared_ptr<TransferStaging>> stagings;
  for (CollectiveCall& call : calls) stagings.push_back(stage(call));
  Action driver;
  // A waiting thread has a handle, so the group is there.
  if (desk->is_driven_by_waiters()) driver = [this] { go_on_with_transfers(); };
  const auto present = listeners->get();
  auto on_wait = tell_waiting(present, {calls.begin(), calls.end()});
  return desk->post(std::move(calls), stagings, *present, options.owner, std::move(driver),
                    std::move(on_wait));
}

std::shared_ptr<const Communicator::Group::Listeners> Communicator::Group::ListenerList::get()
    const {
  const std::lock_guard lock(mutex_);
  return listeners_;
}

void Communicator::Group::ListenerList::set(Listeners changed) {
  auto next = std::make_shared<const Listeners>(std::move(changed));
  const std::lock_guard lock(mutex_);
  listeners_ = std::move(next);
}

void Communicator::Group::add_set(const std::shared_ptr<Group>& set) {
  if (set->backend->topology().size == 1) return;
  const std::lock_guard lock(mutex_);
  std::erase_if(sets_, [](const std::weak_ptr<Group>& each) { return each.expired(); });
  sets_.push_back(set);
}

std::vector<std::shared_ptr<Communicator::Group>> Communicator::Group::sets() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Group>> present;
  for (const auto& each : sets_) {
    if (auto set = each.lock()) present.push_back(std::move(set));
  }
  return present;
}

// Communicators of the same ranks with orders of their own.
std::vector<std::shared_ptr<Communicator::Group>> Communicator::Group::Companions::of_kind(
    bool is_checked) {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Group>> found;
  for (const auto& group : groups) {
    if (Communicator(group).is_checked() == is_checked) found.push_back(group);
  }
  return found;
}

// Ranks may have let go of one at different times, so they agree on the first of those that are
// free, with all after them, on every rank.
Communicator Communicator::with_own_order() const {
  if (size() == 1 || !capabilities().concurrent) return *this;
  std::int64_t first_free = 0;
  {
    const auto made = group_->companions->of_kind(is_checked());
    constexpr long own_shares = 2;  // in the list, and here
    for (std::size_t place = 0; place < made.size(); ++place) {
      if (made[place].use_count() > own_shares) first_free = narrow<std::int64_t>(place) + 1;
    }
  }
  all_reduce(std::span(&first_free, 1), ReduceOp::max, {.name = "an order of its own"});
  require_all_ranks(
      "comm: an order of its own while ranks have joined: they can't take part in new ones; make "
      "reducers and optimizers before the first join");
  const auto made = group_->companions->of_kind(is_checked());
  if (const auto place = static_cast<std::size_t>(first_free); place < made.size())
    return Communicator(made[place]);
  auto companion = make_set(0, rank()).value();
  companion.group_->listeners = group_->listeners;
  const std::lock_guard lock(group_->companions->mutex);
  group_->companions->groups.push_back(companion.group_);
  return companion;
}

}  // namespace kolo
