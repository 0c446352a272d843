#pragma once

#include <memory>
#include <mutex>

#include "comm/watch/event_block.h"
#include "kolo/comm/collective_call.h"

namespace kolo {

// Writes down every collective of this rank in its block.
class FlightRecorder {
 public:
  // The block lies in memory that `owner` keeps.
  explicit FlightRecorder(std::shared_ptr<EventBlock> block);

  void submitted(const CollectiveCall& call);
  void started(const CollectiveCall& call);
  void finished(const CollectiveCall& call, bool failed);
  // This rank belongs to the call's group, even if it never calls anything.
  void joined_group(const CollectiveCall& call);
  // It calls nothing in that group any more.
  void left_group(const CollectiveCall& call);

 private:
  Lane* lane_of(const CollectiveCall& call);

  std::shared_ptr<EventBlock> block_;
  std::mutex mutex_;  // several threads record, and a record has one writer at a time
};

}  // namespace kolo
