#include "comm/transfers/transfer_desk.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace kolo {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Patience = TransferDesk::Patience;

constexpr int spin_count = 300;    // looks at the bell before going to sleep
constexpr int eager_rounds = 100;  // of polling, before sleeping in between

// Longest time to sleep. Polling takes processors from ranks that compute, so it gets rarer the
// longer nothing has come.
nanoseconds longest_sleep(Patience patience, int idle_rounds) {
  switch (patience) {
    case Patience::nothing:
      return std::chrono::seconds(1);
    case Patience::ringing:
      return milliseconds(50);
    case Patience::polling:
      return microseconds(std::clamp(idle_rounds / 10, 20, 1000));
    case Patience::moving:
      return microseconds(std::clamp(idle_rounds / 10, 20, 100));
  }
  return milliseconds(1);
}

}  // namespace

TransferThread::TransferThread(int job_rank, std::vector<std::shared_ptr<Bell>> bells)
    : bells_(std::move(bells)),
      own_bell_(bells_.empty() ? std::make_shared<Bell>()
                               : bells_.at(static_cast<std::size_t>(job_rank))) {}

void TransferThread::end_thread() {
  is_stopping_ = true;
  ring();
  if (thread_.joinable()) thread_.join();
}

void TransferThread::start() {
  const std::lock_guard lock(starting_);
  if (!thread_.joinable() && !is_stopping_) thread_ = std::thread([this] { loop(); });
}

void TransferThread::remove(const TransferDesk& desk) {
  const std::lock_guard lock(round_);
  desks_.remove(desk);
}

void TransferThread::stop(const std::string& message) {
  end_thread();
  std::vector<std::shared_ptr<const void>> done;
  const std::lock_guard lock(round_);
  for (const auto& desk : desks_.present()) {
    desk->stop(message);
    std::ranges::move(desk->take_done(), std::back_inserter(done));
  }
}

// Returns whether anything was done; raises `patience` to the least patient desk's.
bool TransferThread::go_round(TransferDesk::Patience& patience) {
  std::vector<std::shared_ptr<const void>> done;  // goes after the lock
  bool has_progress = false;
  const std::lock_guard lock(round_);
  for (const auto& desk : desks_.present()) {
    if (desk->is_driven_by_waiters()) continue;
    has_progress = desk->go_on() || has_progress;
    std::ranges::move(desk->take_done(), std::back_inserter(done));
    patience = std::max(patience, desk->patience());
  }
  return has_progress;
}

void TransferThread::loop() {
  int idle_rounds = 0;
  while (!is_stopping_) {
    const auto heard = own_bell_->rings.load(std::memory_order_seq_cst);
    auto patience = TransferDesk::Patience::nothing;
    const bool has_progress = go_round(patience);
    idle_rounds = has_progress ? 0 : idle_rounds + 1;
    if (!has_progress) rest(heard, patience, idle_rounds);
  }
}

void TransferThread::rest(std::uint32_t heard, TransferDesk::Patience patience, int idle_rounds) {
  if (patience >= TransferDesk::Patience::polling && idle_rounds <= eager_rounds)
    return std::this_thread::yield();
  for (int look = 0; look < spin_count; ++look) {
    if (is_stopping_ || own_bell_->rings.load(std::memory_order_acquire) != heard) return;
    relax();
  }
  own_bell_->sleep(heard, longest_sleep(patience, idle_rounds));
}

}  // namespace kolo
