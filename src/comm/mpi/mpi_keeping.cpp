#include "comm/mpi/mpi_keeping.h"

#include <exception>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/print_line.h"

namespace kolo {

namespace {

using Share = std::shared_ptr<MpiKeeping>;

// MPI calls it as the first thing in MPI_Finalize, when everything still works.
int at_finalize(MPI_Comm, int, void* attribute, void*) {
  const std::unique_ptr<Share> share(static_cast<Share*>(attribute));
  (*share)->end();
  return MPI_SUCCESS;
}

}  // namespace

std::shared_ptr<MpiKeeping> MpiKeeping::make(const MpiThreads& threads) {
  auto keeping = std::make_shared<MpiKeeping>(threads);
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, nullptr),
            "MPI_Comm_create_keyval");
  auto share = std::make_unique<Share>(keeping);
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, share.get()), "MPI_Comm_set_attr");
  (void)share.release();  // it is MPI's now, until at_finalize()
  check_mpi(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
  return keeping;
}

MpiObjects& MpiKeeping::add(MpiGroup all) {
  const std::lock_guard lock(mutex_);
  kept_.emplace_back();
  kept_.back().all = all;
  return kept_.back();
}

void MpiKeeping::end() noexcept {
  try {
    for (const auto& action : before_end_) action();
    for (const MpiObjects& objects : kept_) {
      if (const auto node_group = objects.node_group.lock()) node_group->leave();
    }
    for (MpiObjects& objects : kept_) objects.free();
  } catch (const std::exception& error) {
    print_line(fmt::format("in MPI_Finalize: {}", error.what()));
  }
  has_ended_ = true;
}

void MpiObjects::free() {
  all_collectives.reset();
  across_collectives.reset();
  // Messages that nobody has taken: MPI may read them until its very end.
  if (!status_messages.pending.empty())
    (void)std::make_unique<MpiStatusMessages>(std::exchange(status_messages, {})).release();
  for (MpiGroup* const group : {&statuses, &across, &node, &all}) group->free();
}

bool MpiKeeping::this_thread_may_call() const {
  return threads_.may_call || std::this_thread::get_id() == initialising_thread_;
}

void MpiKeeping::abort(int exit_code) const noexcept {
  if (!has_ended_ && this_thread_may_call()) MPI_Abort(MPI_COMM_WORLD, exit_code);
  ::_exit(exit_code);
}

}  // namespace kolo
