#include "comm/transfers/transfer_desk.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "comm/device/device_sharing.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// In the same words on both ends.
std::string describe_difference(int own_rank, const CallHeader& own, const CallHeader& other) {
  const bool is_send = own.collective == Collective::send;
  const CallHeader &sent = is_send ? own : other, &received = is_send ? other : own;
  const int sender = is_send ? own_rank : own.peer, receiver = is_send ? own.peer : own_rank;
  return fmt::format(
      "comm: transfer from rank {} to rank {}, tag {}: rank {} sends {} {}, and rank {} receives "
      "{} {}; both ends must have the same count and type, and the n-th send with a tag belongs to "
      "the n-th receive",
      sender, receiver, own.tag, sender, sent.count, name_of(sent.type), receiver, received.count,
      name_of(received.type));
}

}  // namespace

TransferDesk::TransferDesk(int rank, std::vector<std::shared_ptr<TransferLine>> line_of_rank,
                           std::shared_ptr<TransferThread> thread, bool is_driven_by_waiters)
    : rank_(rank),
      line_of_rank_(std::move(line_of_rank)),
      thread_(std::move(thread)),
      is_driven_by_waiters_(is_driven_by_waiters) {
  for (const auto& line : line_of_rank_) {
    if (line && std::find(lines_.begin(), lines_.end(), line.get()) == lines_.end())
      lines_.push_back(line.get());
  }
}

TransferLine& TransferDesk::line(int rank) const {
  return *line_of_rank_.at(static_cast<std::size_t>(rank));
}

Work TransferDesk::post(std::vector<CollectiveCall> calls,
                        std::span<const std::shared_ptr<TransferStaging>> stagings,
                        const Listeners& listeners, const std::shared_ptr<const void>& owner,
                        std::function<void()> go_on, std::function<void(bool begins)> on_wait) {
  const auto state = std::make_shared<Work::State>();
  state->pending = calls.size();
  state->go_on = std::move(go_on);
  state->on_wait = std::move(on_wait);
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.empty()) throw StateError(closed_);
    pending_ += calls.size();
    for (auto staging = stagings.begin(); auto& call : calls) {
      for (const auto& listener : listeners) listener->on_submit(call);
      const auto item = std::make_shared<Pending>();
      if (call.order) state->orders.push_back(call.order);
      item->call = std::move(call);
      item->staging = *staging++;
      item->listeners.assign(listeners.begin(), listeners.end());
      item->owner = owner;
      item->state = state;
      asked_.push_back(item);
    }
  }
  if (is_driven_by_waiters_) {
    state->go_on();
  } else {
    thread_->start();
    thread_->ring();
  }
  return Work(state);
}

// Fails the transfers for which error_of(call) is one.
template <typename ErrorOf>
void TransferDesk::fail(const ErrorOf& error_of) {
  std::vector<std::pair<Item, std::exception_ptr>> lost;
  const auto take = [&](auto& items) {
    std::erase_if(items, [&](const Item& item) {
      const std::exception_ptr error = error_of(item->call);
      if (error) lost.emplace_back(item, error);
      return error != nullptr;
    });
  };
  for (auto& [key, queue] : queues_) take(queue.mine);
  take(moving_);
  std::erase_if(queues_, [](const auto& entry) {
    return entry.second.mine.empty() && entry.second.theirs.empty();
  });
  for (const auto& [item, error] : lost) finish(item, error);
}

bool TransferDesk::go_on() noexcept {
  try {
    return try_to_go_on();
  } catch (...) {
    fail([error = std::current_exception()](const CollectiveCall&) { return error; });
    return true;
  }
}

bool TransferDesk::try_to_go_on() {
  bool has_progress = take_asked();
  // Obstacles are looked for first: a rank that leaves may have sent something before.
  const auto lost = obstacles();
  has_progress = take_calls() || has_progress;
  has_progress = move() || has_progress;
  if (has_progress || lost.empty()) return has_progress;
  fail([&](const CollectiveCall& call) -> std::exception_ptr {
    const auto found = lost.find(call.peer);
    if (found == lost.end()) return nullptr;
    return std::make_exception_ptr(CommunicationError(
        fmt::format("comm: {} can't be completed, because {}", call.describe(), found->second)));
  });
  return true;
}

bool TransferDesk::take_asked() {
  std::vector<Item> asked;
  {
    const std::lock_guard lock(mutex_);
    asked = std::exchange(asked_, {});
  }
  const auto key_of = [](const CollectiveCall& call) {
    return Key{call.peer, call.tag, call.collective == Collective::send};
  };
  for (const Item& item : asked) {
    ++pending_with_[item->call.peer];
    queues_[key_of(item->call)].mine.push_back(item);
  }
  // Calls are told before any bytes move.
  for (const Item& item : asked) line(item->call.peer).post(item->call.peer, item->call);
  for (const Item& item : asked) match(key_of(item->call));
  return !asked.empty();
}

bool TransferDesk::is_used(const TransferLine& line) const {
  return std::any_of(pending_with_.begin(), pending_with_.end(), [&](const auto& with) {
    return line_of_rank_[static_cast<std::size_t>(with.first)].get() == &line;
  });
}

bool TransferDesk::take_calls() {
  bool has_progress = false;
  for (TransferLine* const each : lines_) {
    if (each->is_silent() && !is_used(*each)) continue;
    while (const auto arrival = each->take()) {
      has_progress = true;
      const auto& [from, call] = *arrival;
      const Key key{from, call.tag, call.collective == Collective::receive};
      queues_[key].theirs.push_back(call);
      match(key);
    }
  }
  return has_progress;
}

// Both ends match the same calls, since both have them in the same order.
void TransferDesk::match(const Key& key) {
  Queue& queue = queues_[key];
  while (!queue.mine.empty() && !queue.theirs.empty()) {
    const Item item = queue.mine.front();
    const CallHeader other = queue.theirs.front();
    queue.mine.pop_front();
    queue.theirs.pop_front();
    begin(item, other);
  }
  if (queue.mine.empty() && queue.theirs.empty()) queues_.erase(key);
}

void TransferDesk::begin(const Item& item, const CallHeader& other) {
  const CollectiveCall& call = item->call;
  for (const auto& listener : item->listeners) {
    if (const auto present = listener.lock()) present->on_start(call);
  }
  if (call.count != other.count || call.type != other.type) {
    return finish(item, std::make_exception_ptr(Error(describe_difference(rank_, call, other))));
  }
  if (call.count == 0) return finish(item, nullptr);
  item->other = other;
  moving_.push_back(item);
  // Bytes must not arrive before this rank is ready for them.
  if (call.collective == Collective::receive) item->move = line(call.peer).begin(call, other);
}

bool TransferDesk::move() {
  bool has_progress = false;
  for (const Item& item : moving_) has_progress = go_on_with(item) || has_progress;
  const auto still_moving =
      std::stable_partition(moving_.begin(), moving_.end(),
                            [](const Item& item) { return !item->move || !item->move->is_done(); });
  const std::vector<Item> done(still_moving, moving_.end());
  moving_.erase(still_moving, moving_.end());
  for (const Item& item : done) finish_moved(item);
  std::erase_if(on_devices_, [](const auto& staging) { return staging->is_over(); });
  for (const Item& item : std::exchange(failed_, {})) finish(item, item->error);
  return has_progress || !done.empty();
}

void TransferDesk::finish_moved(const Item& item) {
  std::exception_ptr failure;
  try {
    if (item->staging && item->call.collective == Collective::receive) item->staging->take_up();
  } catch (...) {
    failure = std::current_exception();
  }
  finish(item, failure);
}

bool TransferDesk::go_on_with(const Item& item) {
  if (!item->move) {
    if (item->staging && !item->staging->is_there()) return false;
    item->move = line(item->call.peer).begin(item->call, item->other);
  }
  return item->move->go_on();
}

std::map<int, std::string> TransferDesk::obstacles() const {
  std::map<int, std::string> found;
  for (const auto& [rank, count] : pending_with_) {
    if (auto obstacle = line(rank).obstacle(rank); !obstacle.empty())
      found.emplace(rank, std::move(obstacle));
  }
  return found;
}

// Counts down first: a waiting thread may ask at once whether anything is pending.
void TransferDesk::finish(const Item& item, std::exception_ptr error) {
  // The device may still read the buffer of one that has failed.
  if (error && item->staging && !item->staging->is_over()) {
    item->error = std::move(error);
    return failed_.push_back(item);
  }
  for (const auto& listener : item->listeners) {
    if (const auto present = listener.lock()) present->on_finish(item->call, error != nullptr);
  }
  if (--pending_with_[item->call.peer] == 0) pending_with_.erase(item->call.peer);
  item->move.reset();
  if (item->staging) on_devices_.push_back(std::move(item->staging));
  done_.push_back(std::move(item->owner));
  {
    const std::lock_guard lock(mutex_);
    --pending_;
  }
  changed_.notify_all();
  item->state->complete(std::move(error));
}

TransferDesk::Patience TransferDesk::patience() const {
  auto result = Patience::nothing;
  for (TransferLine* const each : lines_) {
    if (!is_used(*each)) continue;
    result = std::max(result, each->is_silent() ? Patience::polling : Patience::ringing);
  }
  const bool moves_silently = std::any_of(moving_.begin(), moving_.end(), [&](const Item& item) {
    return !item->move || line(item->call.peer).is_silent();
  });
  return moves_silently || !on_devices_.empty() || !failed_.empty() ? Patience::moving : result;
}

bool TransferDesk::is_pending() const {
  const std::lock_guard lock(mutex_);
  return pending_ > 0;
}

void TransferDesk::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pending_ == 0; });
}

void TransferDesk::stop(const std::string& message) {
  std::vector<Item> asked;
  {
    const std::lock_guard lock(mutex_);
    closed_ = message;
    asked = std::exchange(asked_, {});
  }
  const auto error = std::make_exception_ptr(StateError(message));
  for (const Item& item : asked) {
    ++pending_with_[item->call.peer];
    finish(item, error);
  }
  fail([&](const CollectiveCall&) { return error; });
}

void TransferDesk::end() noexcept {
  thread_->remove(*this);
}

}  // namespace kolo
