#include "online/background.h"

#include <array>
#include <chrono>
#include <csignal>
#include <utility>

#include "online/host_state.h"

namespace kolo::online {

namespace {

// The program's handlers are for its own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

BackgroundTraining::BackgroundTraining(Communicator ranks, Work work, int threads)
    : ranks_(std::move(ranks)), work_(std::move(work)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this, threads] { loop(threads); });
}

BackgroundTraining::~BackgroundTraining() {
  stop();
}

void BackgroundTraining::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_asked_to_stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void BackgroundTraining::rethrow() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void BackgroundTraining::ask_for_publication() {
  const std::lock_guard lock(mutex_);
  ++asked_;
}

std::int64_t BackgroundTraining::published() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

BackgroundTraining::Publication BackgroundTraining::take(std::int64_t publication) {
  const std::lock_guard lock(mutex_);
  publications_.erase(publications_.begin(), publications_.lower_bound(publication));
  return publications_.at(publication);
}

void BackgroundTraining::loop(int threads) {
  compute_with(threads);
  try {
    while (go_round()) {
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
}

// A rank that fails by itself asks all to stop in the next round, so that nobody waits for it.
bool BackgroundTraining::go_round() {
  std::exception_ptr failure;
  std::array<std::int64_t, 3> flags{};  // ready, goes on, publications asked for
  try {
    flags[0] = work_.is_ready() ? 1 : 0;
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    flags[1] = !is_asked_to_stop_ && !failure ? 1 : 0;
    flags[2] = asked_;
  }
  ranks_.all_reduce(std::span(flags), ReduceOp::min, {.name = "background training"});
  if (failure) std::rethrow_exception(failure);
  if (flags[1] == 0) return false;
  if (flags[2] > published()) publish();
  if (flags[0] == 1) {
    work_.step();
  } else {
    // Samples come with time steps, which take longer.
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return true;
}

void BackgroundTraining::publish() {
  auto publication = work_.snapshot();
  const std::lock_guard lock(mutex_);
  publications_.emplace(++published_, std::move(publication));
}

}  // namespace kolo::online
