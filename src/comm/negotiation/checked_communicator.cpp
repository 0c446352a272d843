#include <algorithm>

#include "comm/communicator_group.h"
#include "comm/negotiation/negotiated_backend.h"
#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"

// What only a checked communicator does.
namespace kolo {

namespace {

std::shared_ptr<NegotiatedBackend> negotiated(const Communicator::Group& group) {
  return std::dynamic_pointer_cast<NegotiatedBackend>(group.backend);
}

// Other threads may be counting on; numbers never go back.
template <typename T>
void raise_to(std::atomic<T>& number, T least) {
  T present = number.load();
  while (present < least && !number.compare_exchange_weak(present, least)) {
  }
}

}  // namespace

bool Communicator::is_checked() const {
  return negotiated(*group_) != nullptr;
}

Communicator Communicator::checked() const {
  if (is_checked()) return *this;
  Communicator result(std::make_shared<NegotiatedBackend>(group_->backend), group_->executor);
  result.group_->number_in_job = group_->number_in_job;
  result.group_->job_rank = group_->job_rank;
  result.group_->first_job_rank = group_->first_job_rank;
  result.group_->sequence = group_->sequence;
  result.group_->set_listeners(*group_->listeners());
  return result;
}

int Communicator::active_ranks() const {
  const auto backend = negotiated(*group_);
  return backend ? backend->active_ranks() : size();
}

int Communicator::join() const {
  const auto backend = negotiated(*group_);
  if (!backend) {
    throw Error(
        "comm: join: this communicator's calls are not negotiated, so a rank can't know what the "
        "others do; use communicator.checked(), on all ranks and for all calls");
  }
  CollectiveCall call;
  call.collective = Collective::join;
  NegotiatedBackend::JoinResult result;
  auto& sequence = *group_->sequence;
  group_->run(std::move(call), {}, [&] {
    result = backend->join({.calls = sequence.calls, .splits = sequence.splits});
  });
  raise_to(sequence.calls, result.progress.calls);
  raise_to(sequence.splits, result.progress.splits);
  return result.last_rank;
}

}  // namespace kolo
