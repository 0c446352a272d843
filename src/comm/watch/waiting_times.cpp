#include "comm/watch/waiting_times.h"

#include <algorithm>

namespace kolo {

void WaitingTimes::look(std::int64_t now) {
  step_ = last_look_ == 0 ? longest_step_ : std::min(now - last_look_, longest_step_);
  last_look_ = now;
  ++looks_;
}

void WaitingTimes::correct(RankStatus& status) {
  for (LaneStatus& lane : status.lanes) {
    Waiting& waiting = waitings_[{status.rank, lane.identity}];
    if (lane.running.number == 0) {
      waiting = {};
      continue;
    }
    if (waiting.place != lane.running.place()) waiting = {.place = lane.running.place()};
    if (waiting.looks != looks_) waiting.counted += step_;
    waiting.looks = looks_;
    // What has begun since the last look has not waited longer than that.
    waiting.counted = std::min(waiting.counted, lane.waiting);
    lane.waiting = waiting.counted;
  }
}

}  // namespace kolo
