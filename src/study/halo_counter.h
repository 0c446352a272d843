#pragma once

#include <memory>
#include <mutex>

#include "kolo/base/clock.h"
#include "kolo/comm/collective_call.h"
#include "kolo/comm/communicator.h"
#include "kolo/study/bench.h"

namespace kolo {

// Counts the halos of this rank (messages named "halo") on a communicator and all that are split
// from it later. Listens as long as it lives.
class HaloCounter {
 public:
  explicit HaloCounter(const Communicator& communicator);
  HaloCounter(const HaloCounter&) = delete;
  HaloCounter& operator=(const HaloCounter&) = delete;
  ~HaloCounter();

  // Between exchanges.
  void reset();
  [[nodiscard]] HaloUse total() const;

 private:
  class Listener;
  Communicator communicator_;
  std::shared_ptr<Listener> listener_;
};

}  // namespace kolo
