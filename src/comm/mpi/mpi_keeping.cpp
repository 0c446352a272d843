#include "comm/mpi/mpi_keeping.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/messages.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr std::size_t most_of_reason = 600;  // bytes, which MPI sends at once

using Reference = std::shared_ptr<MpiKeeping>;

// Called by MPI at the beginning of MPI_Finalize, when everything still works, or where the
// attribute is deleted.
int at_deletion(MPI_Comm, int, void* attribute, void*) {
  const std::unique_ptr<Reference> reference(static_cast<Reference*>(attribute));
  (*reference)->end_in_finalize();
  return MPI_SUCCESS;
}

}  // namespace

std::shared_ptr<MpiKeeping> MpiKeeping::make(const MpiGroup& job, const MpiRules& rules) {
  auto keeping = std::make_shared<MpiKeeping>(job, rules);
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_deletion, &keeping->key_, nullptr),
            "MPI_Comm_create_keyval");
  auto reference = std::make_unique<Reference>(keeping);
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, keeping->key_, reference.get()), "MPI_Comm_set_attr");
  (void)reference.release();  // it is MPI's now, until at_deletion()
  // The key goes with the attribute, unless finish() deletes that before.
  int key = keeping->key_;
  if (!rules.is_session) check_mpi(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
  return keeping;
}

MpiKeeping::MpiKeeping(const MpiGroup& job, const MpiRules& rules)
    : rules_(rules),
      job_(rules.aborted == MPI_COMM_NULL ? job.get() : rules.aborted),
      job_rank_(job.rank()) {
  std::vector<int> ranks(static_cast<std::size_t>(job.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  (void)add(job, std::move(ranks));
}

MpiObjects& MpiKeeping::add(MpiGroup all, std::vector<int> job_ranks) {
  const std::lock_guard lock(mutex_);
  MpiObjects& added = kept_.emplace_back();
  added.all = all;
  added.job_ranks = std::move(job_ranks);
  return added;
}

std::vector<MpiObjects*> MpiKeeping::objects_of(const std::vector<int>& job_ranks) {
  const std::lock_guard lock(mutex_);
  std::vector<MpiObjects*> found;
  for (MpiObjects& each : kept_) {
    if (each.job_ranks == job_ranks && found.size() < most_objects) found.push_back(&each);
  }
  return found;
}

void MpiKeeping::end_threads(const char* words) noexcept {
  try {
    // All ranks of a session end together, so nobody waits for a goodbye of this one.
    background_threads_.end(words, !rules_.is_session);
  } catch (const std::exception& error) {
    print_line(fmt::format("rank {}: at the end of MPI: {}", job_rank_, error.what()));
  }
}

void MpiKeeping::end_in_finalize() noexcept {
  if (has_ended_) return;
  if (rules_.is_session) {
    // Pending calls end where they wait. Nothing is broken for other ranks, which may still be in
    // collectives that this rank has done its part of.
    leave();
    (void)note_end("MPI has been finalized without Session::finalize() before");
    end_threads(
        "comm: MPI has been finalized, so there is no communication any more; call "
        "Session::finalize() after the last collective, before MPI_Finalize");
    for (MpiObjects& objects : kept_) objects.forget();
    has_ended_ = true;
    return;
  }
  try {
    end_threads(
        "comm: MPI has been finalized, so there is no communication any more; call MPI_Finalize "
        "after the last collective");
    leave();
    for (MpiObjects& objects : kept_) objects.free();
  } catch (const std::exception& error) {
    print_line(fmt::format("in MPI_Finalize: {}", error.what()));
  }
  has_ended_ = true;
}

void MpiKeeping::finish() {
  if (has_ended_) return;
  end_threads(
      "comm: the session has been finalized, so there is no communication any more; call "
      "Session::finalize() after the last collective");
  try {
    if (!is_over()) take_last_statuses(objects_of_all());
  } catch (const std::exception& error) {
    break_session(error.what());
  }
  leave();
  const bool is_broken = !note_end("it has been finalized");
  if (is_broken) tell_others();
  has_ended_ = true;
  // Calls of a broken session may be pending in MPI for ever.
  for (MpiObjects& objects : kept_) is_broken ? objects.forget() : objects.free();
  check_mpi(MPI_Comm_delete_attr(MPI_COMM_SELF, key_), "MPI_Comm_delete_attr");
  check_mpi(MPI_Comm_free_keyval(&key_), "MPI_Comm_free_keyval");
}

void MpiSmallMessages::send(const MpiGroup& group, int tag, int to,
                            std::span<const std::byte> bytes) {
  Message& message = pending.emplace_back();
  message.to = to;
  message.bytes.assign(bytes.begin(), bytes.end());
  check_mpi(MPI_Isend(message.bytes.data(), narrow<int>(message.bytes.size()), MPI_BYTE, to, tag,
                      group.get(), &message.request),
            "MPI_Isend");
}

int MpiSmallMessages::forget_sent(int to) {
  std::erase_if(pending, [](Message& message) {
    int is_done = 0;
    check_mpi(MPI_Test(&message.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    return is_done != 0;
  });
  return static_cast<int>(std::ranges::count(pending, to, &Message::to));
}

std::optional<StatusExchange::Message> take_message(const MpiGroup& group, int tag) {
  int is_there = 0, count = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, group.get(), &is_there, &status), "MPI_Iprobe");
  if (is_there == 0) return std::nullopt;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  StatusExchange::Message message{.from = status.MPI_SOURCE,
                                  .bytes = std::vector<std::byte>(static_cast<std::size_t>(count))};
  check_mpi(MPI_Recv(message.bytes.data(), count, MPI_BYTE, message.from, tag, group.get(),
                     MPI_STATUS_IGNORE),
            "MPI_Recv");
  return message;
}

void MpiObjects::free() {
  if (all_collectives) all_collectives->free();
  if (across_collectives) across_collectives->free();
  forget();
  for (MpiGroup* const group : {&statuses, &across, &all}) group->free();
}

void MpiObjects::forget() {
  // Leaves messages that nobody has taken to MPI, which may read them until its very end.
  for (MpiSmallMessages* const messages : {&status_messages, &calls, &breaks}) {
    if (!messages->pending.empty())
      (void)std::make_unique<MpiSmallMessages>(std::exchange(*messages, {})).release();
  }
}

namespace {

// Ends the process later: MPICH's MPI_Abort() on some ranks' communicator waits for those outside
// of MPI. The launcher ends the job for a process that ends with this status.
void exit_later(int exit_code) noexcept {
  try {
    std::thread([exit_code] {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      ::_exit(exit_code);
    }).detach();
  } catch (const std::exception&) {
    // No thread could be started: MPI_Abort alone ends the process.
  }
}

}  // namespace

void MpiKeeping::give_up(int exit_code, std::string_view reason) noexcept {
  if (!rules_.failure_ends_processes) return break_session(reason);
  const bool may_call =
      rules_.threads_may_call() || std::this_thread::get_id() == initializing_thread_;
  if (!has_ended_ && may_call) {
    exit_later(exit_code);
    MPI_Abort(job_, exit_code);
  }
  ::_exit(exit_code);
}

// Returns false where the end had been noted already.
bool MpiKeeping::note_end(std::string_view reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_over_) return false;
  reason_ = reason.empty() ? "another rank gave up" : reason;
  is_over_.store(true, std::memory_order_release);
  return true;
}

void MpiKeeping::break_session(std::string_view reason) noexcept {
  if (rules_.failure_ends_processes || !note_end(reason)) return;
  for (const auto& group : node_groups_.present()) group->abort(reason);
  if (rules_.threads_may_call()) tell_others();
}

std::string MpiKeeping::reason() const {
  if (!is_over()) return {};
  const std::lock_guard lock(mutex_);
  return reason_;
}

void MpiKeeping::hear() {
  if (!is_over()) look_at_node();
  if (!is_over()) listen();
}

void MpiKeeping::look_at_node() {
  for (const auto& group : node_groups_.present()) {
    if (group->is_aborted()) break_session(group->reason_of_abort());
  }
}

// One thread at a time takes the message.
void MpiKeeping::listen() {
  const std::unique_lock lock(listening_, std::try_to_lock);
  if (!lock || far_ranks_.empty() || rules_.failure_ends_processes) return;
  const auto message = take_message(objects_of_all().all, tag_of_breaks);
  if (!message) return;
  break_session({reinterpret_cast<const char*>(message->bytes.data()), message->bytes.size()});
}

void MpiKeeping::tell_others() noexcept {
  if (rules_.failure_ends_processes || has_ended_ || has_told_.exchange(true)) return;
  const auto words = reason().substr(0, most_of_reason);
  for (const int rank : far_ranks_) {
    try {
      objects_of_all().breaks.send(objects_of_all().all, tag_of_breaks, rank,
                                   std::as_bytes(std::span(words)));
    } catch (const MpiError&) {  // a rank that is gone needs no message
    }
  }
}

void MpiKeeping::check() const {
  if (!is_over()) return;
  throw CommunicationError(
      fmt::format("comm: the session is broken, and nothing can be done in it any more: {}; "
                  "finalize it, and go on without it or end the program",
                  reason()));
}

}  // namespace kolo
