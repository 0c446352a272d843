#include "kolo/comm/session.h"

#include <chrono>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "comm/job.h"
#include "comm/mpi/mpi_keeping.h"
#include "comm/mpi/mpi_runtime.h"
#include "comm/watch/watch.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

MpiOptions host_options() {
  MpiOptions options;
  options.watch.warning = std::chrono::hours(2);
  options.watch.limit = std::chrono::hours(0);
  return options;
}

bool Session::is_finalized() const {
  return !keeping_ || keeping_->has_ended();
}

const Communicator& Session::communicator() const {
  if (!is_finalized()) return *communicator_;
  throw StateError(!keeping_ ? "comm: this session has been moved from; use the one it has become"
                   : communicator_
                       ? "comm: MPI has been finalized, so this session has no communicator; "
                         "call MPI_Finalize after Session::finalize()"
                       : "comm: this session has been finalized, so it has no communicator; "
                         "make another with kolo::initialize()");
}

void Session::finalize() {
  if (!keeping_ || !communicator_) return;
  if (keeping_->has_ended()) {
    throw StateError(
        "comm: Session::finalize() after MPI_Finalize: what the session had is lost; call it "
        "before");
  }
  std::exception_ptr failure;
  try {
    if (!keeping_->is_over()) communicator_->barrier({.name = "Session::finalize"});
  } catch (const CommunicationError& error) {
    failure = std::current_exception();
    keeping_->break_session(error.what());
  }
  keeping_->finish();
  communicator_.reset();
  if (failure) std::rethrow_exception(failure);
}

namespace {

void require_mpi() {
  open_standard_streams();
  require_one_mpi();
  int is_finalized = 0, is_main = 0;
  check_mpi(MPI_Finalized(&is_finalized), "MPI_Finalized");
  if (!is_mpi_initialized() || is_finalized != 0) {
    throw StateError(
        fmt::format("comm: kolo::initialize: MPI {}; call it between MPI_Init (or MPI_Init_thread) "
                    "and MPI_Finalize{}",
                    is_finalized != 0 ? "has been finalized" : "has not been initialized",
                    describe_other_mpi()));
  }
  check_mpi(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  const ThreadLevel level = granted_thread_level();
  if (is_main == 0 && level < ThreadLevel::serialized) {
    throw StateError(
        fmt::format("comm: kolo::initialize: called by another thread than the main one, but MPI's "
                    "thread level is {}; call it from the thread that initialized MPI, or ask "
                    "MPI_Init_thread for more",
                    name_of(level)));
  }
}

// Open MPI's MPI_Comm_f2c() gives a null pointer, which is not MPI_COMM_NULL, for an integer that
// is no communicator's. MPI ends the process where it sees one; 0 is none in MPICH either.
void require_ranks(MPI_Comm communicator) {
  const auto refuse = [](std::string_view what) {
    throw InputError(
        fmt::format("comm: kolo::initialize: the communicator is {}; expected an "
                    "intra-communicator of ranks that all call this",
                    what));
  };
  if (communicator == MPI_COMM_NULL) refuse("MPI_COMM_NULL");
  if (communicator == MPI_Comm()) refuse("a null pointer, or of an integer that stands for none");
  int is_inter = 0;
  check_mpi(MPI_Comm_test_inter(communicator, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0) refuse("an inter-communicator");
}

std::string describe_rank(MPI_Comm communicator) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  return fmt::format("rank {} of {}", rank, size);
}

bool rank_0_ends_processes(const MpiGroup& group, OnFailure on_failure) {
  int ends_processes = on_failure == OnFailure::abort ? 1 : 0;
  check_mpi(MPI_Bcast(&ends_processes, 1, MPI_INT, 0, group.get()), "MPI_Bcast");
  return ends_processes != 0;
}

}  // namespace

Session initialize(MPI_Comm communicator, const SessionOptions& options) {
  require_mpi();
  require_ranks(communicator);
  const MpiOptions wanted = with_environment(options.mpi);
  WatchOptions at_start = wanted.watch;
  at_start.limit = {};  // the program's processes don't end
  const StartWatch watch(at_start, describe_rank(communicator));
  const auto group = MpiGroup::of(communicator);
  const MpiRules rules{.level = granted_thread_level(),
                       .is_session = true,
                       .failure_ends_processes = rank_0_ends_processes(group, options.on_failure)};
  const MpiJob job = make_mpi_job(nullptr, group, wanted, rules);
  return {job.communicator, job.keeping};
}

}  // namespace kolo
