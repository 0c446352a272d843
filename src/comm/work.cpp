#include "kolo/comm/work.h"

namespace kolo {

void Work::State::complete(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex);
    done = true;
    error = std::move(failure);
  }
  changed.notify_all();
}

void Work::wait() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
}

bool Work::wait_for(std::chrono::nanoseconds limit) const {
  if (!state_) return true;
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_for(lock, limit, [&] { return state_->done; })) return false;
  if (state_->error) std::rethrow_exception(state_->error);
  return true;
}

bool Work::is_done() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

}  // namespace kolo
