#include "study/halo_counter.h"

namespace kolo {

// A span of time begins when a message is asked for while none is under way, and ends when none is
// any more: it has the wait for the other rank in it.
class HaloCounter::Listener final : public CollectiveListener {
 public:
  void on_submit(const CollectiveCall& call) noexcept override {
    if (!is_halo(call)) return;
    const std::lock_guard lock(mutex_);
    if (under_way_++ == 0) watch_ = {};
    if (call.collective != Collective::send) return;
    total_.bytes += static_cast<double>(call.input.bytes());
    total_.messages += 1;
  }
  void on_finish(const CollectiveCall& call, bool /*failed*/) noexcept override {
    if (!is_halo(call)) return;
    const std::lock_guard lock(mutex_);
    if (--under_way_ == 0) total_.seconds += watch_.seconds();
  }

  void reset() {
    const std::lock_guard lock(mutex_);
    total_ = {};
  }
  [[nodiscard]] HaloUse total() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }

 private:
  static bool is_halo(const CollectiveCall& call) {
    return is_transfer(call.collective) && call.name == "halo";
  }

  mutable std::mutex mutex_;
  int under_way_ = 0;
  Stopwatch watch_;
  HaloUse total_;
};

HaloCounter::HaloCounter(const Communicator& communicator)
    : communicator_(communicator), listener_(std::make_shared<Listener>()) {
  communicator_.add_listener(listener_);
}

HaloCounter::~HaloCounter() {
  communicator_.remove_listener(listener_);
}

void HaloCounter::reset() {
  listener_->reset();
}

HaloUse HaloCounter::total() const {
  return listener_->total();
}

}  // namespace kolo
