#include "train/stop_agreement.h"

#include <utility>

namespace kolo {

StopAgreement::StopAgreement(Communicator communicator, std::int64_t batches,
                             std::function<bool()> stop_requested)
    : communicator_(std::move(communicator)),
      stop_requested_(std::move(stop_requested)),
      rounds_(all_reduce_value(communicator_, batches, ReduceOp::min)) {}

bool StopAgreement::stops() {
  if (round_ == rounds_) return false;
  ++round_;
  Round next;
  next.requests = std::make_shared<std::int64_t>(stop_requested_() ? 1 : 0);
  next.work = communicator_.all_reduce_async(std::span(next.requests.get(), 1), ReduceOp::sum,
                                             {.name = "requests to stop", .owner = next.requests});
  const bool is_asked = is_asked_in_last_round();
  if (is_asked) next.work.wait();
  last_ = std::move(next);
  return is_asked;
}

bool StopAgreement::stops_at_end() {
  return is_asked_in_last_round();
}

bool StopAgreement::is_asked_in_last_round() {
  if (!last_.requests) return false;
  last_.work.wait();
  return *last_.requests > 0;
}

}  // namespace kolo
