#include "comm/mpi/mpi_keeping.h"

#include <array>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/messages.h"
#include "kolo/base/error.h"

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
  for (MpiSmallMessages* const messages : {&status_messages, &notes}) {
    if (!messages->pending.empty())
      (void)std::make_unique<MpiSmallMessages>(std::exchange(*messages, {})).release();
  }
  for (MpiGroup* const group : {&statuses, &across, &node, &all}) group->free();
}

bool MpiKeeping::this_thread_may_call() const {
  return threads_.may_call || std::this_thread::get_id() == initialising_thread_;
}

void MpiKeeping::abort(int exit_code) const noexcept {
  if (!has_ended_ && this_thread_may_call()) MPI_Abort(MPI_COMM_WORLD, exit_code);
  ::_exit(exit_code);
}

std::string_view name_of(ThreadLevel level) {
  constexpr std::string_view names[] = {"single", "funneled", "serialized", "multiple"};
  return names[static_cast<std::size_t>(level)];
}

namespace {

constexpr std::array mpi_levels = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                   MPI_THREAD_MULTIPLE};

ThreadLevel from_mpi(int provided) {
  for (std::size_t level = 0; level < mpi_levels.size(); ++level) {
    if (mpi_levels[level] == provided) return static_cast<ThreadLevel>(level);
  }
  throw Error(fmt::format("comm: MPI granted an unknown thread level, {}", provided));
}

}  // namespace

MpiRuntime::MpiRuntime(ThreadLevel wanted) : exceptions_at_start_(std::uncaught_exceptions()) {
  int is_initialized = 0, is_finalized = 0, provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Finalized(&is_finalized), "MPI_Finalized");
  if (is_finalized) {
    throw Error(
        "comm: MPI was already finalized, and it can be initialized only once in a process; keep "
        "one communicator alive "
        "until the last use");
  }
  check_mpi(MPI_Initialized(&is_initialized), "MPI_Initialized");
  if (is_initialized) {
    check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  } else {
    check_mpi(
        MPI_Init_thread(nullptr, nullptr, mpi_levels[static_cast<std::size_t>(wanted)], &provided),
        "MPI_Init_thread");
    is_owner_ = true;
  }
  granted_ = from_mpi(provided);
}

MpiRuntime::~MpiRuntime() {
  int is_finalized = 0;
  const bool is_there = MPI_Finalized(&is_finalized) == MPI_SUCCESS && !is_finalized;
  if (is_owner_ && is_there && std::uncaught_exceptions() <= exceptions_at_start_) MPI_Finalize();
}

}  // namespace kolo
