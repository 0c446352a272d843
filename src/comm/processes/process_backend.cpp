#include "comm/processes/process_backend.h"

#include <utility>

#include "comm/solo/alone.h"
#include "kolo/base/error.h"

namespace kolo {

ProcessBackend::ProcessBackend(RankSet set, const NodeGroupOptions& options,
                               std::shared_ptr<TransferThread> transfer_thread)
    : topology_(std::move(set.topology)),
      job_ranks_(std::move(set.job_ranks)),
      options_(options),
      transfer_thread_(std::move(transfer_thread)) {
  if (!set.stage) return;
  const int job_rank = job_ranks_[static_cast<std::size_t>(topology_.rank)];
  stage_ = std::make_unique<NodeStage>(topology_, job_rank, std::move(set.segments),
                                       std::move(set.stage), options_);
  stage_->group()->execute(CollectiveCall::of(Collective::barrier));  // all have said who they are
  if (!transfer_thread_)
    transfer_thread_ = std::make_shared<TransferThread>(job_rank, stage_->bells());
  const auto line = stage_->make_line(job_ranks_, *transfer_thread_);
  transfers_ = std::make_shared<TransferDesk>(topology_.rank, std::vector(job_ranks_.size(), line),
                                              transfer_thread_, false);
  transfer_thread_->add(transfers_);
}

Capabilities ProcessBackend::capabilities() const {
  return {.backend = "processes",
          .transport = "shared memory",
          .thread_level = "",
          .asynchronous = true,
          .shared_memory = stage_ != nullptr,
          .concurrent = true};
}

void ProcessBackend::execute(const CollectiveCall& call) {
  if (!stage_) return execute_alone(call);
  stage_->group()->execute(call);
}

void ProcessBackend::agree(const CallHeader& call) {
  if (stage_) stage_->group()->agree(call);
}

std::vector<std::shared_ptr<std::byte>> ProcessBackend::allocate(const CallHeader& call) {
  if (!stage_) return NodeStage::allocate_alone(call);
  agree(call);
  return stage_->allocate(call, [this](bool here) {
    return is_everywhere(here, [this](const CollectiveCall& each) { execute(each); });
  });
}

std::shared_ptr<Backend> ProcessBackend::split(int color, int key) {
  agree(CollectiveCall::of(Collective::split));
  const Execute execute_here = [this](const CollectiveCall& call) { execute(call); };
  auto set = gather_set(topology_, job_ranks_, color, key, execute_here);
  if (!make_stage_of(set, topology_, options_.staging_bytes, execute_here))
    throw Error("comm: split: there is no memory that the ranks of a set could share");
  if (!set.has_this_rank()) return nullptr;
  return std::make_shared<ProcessBackend>(std::move(set), options_, transfer_thread_);
}

void ProcessBackend::leave() noexcept {
  if (!stage_) return;
  transfers_->end();
  stage_->group()->leave();
}

void ProcessBackend::abort(int exit_code, std::string_view reason) noexcept {
  if (stage_) stage_->group()->abort(reason);
  ::_exit(exit_code);
}

}  // namespace kolo
