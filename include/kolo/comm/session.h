#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#ifdef KOLO_WITHOUT_MPI
#error \
    "this kolo was built without MPI, and a session is of a program with MPI: build kolo with KOLO_MPI=ON"
#endif

// Keeps out MPI's C++ interface, which MPI-3 removed and some versions still bring.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"

// kolo inside a program that has an MPI of its own, for example a simulation.
namespace kolo {

class MpiKeeping;

// Consequence of a failed rank: its process ends, an exception leaves it while others wait, or
// the watch's limit has passed.
enum class OnFailure : std::uint8_t {
  // The session is broken: on all ranks whoever waits in it, and every later call, gets a
  // CommunicationError that names who failed and how. No process is ended.
  error,
  // MPI_Abort() on kolo's communicator of the session's ranks. The standard has it end those ranks;
  // Open MPI and MPICH end the whole job, also ranks outside of the session.
  abort
};

// Options for a program that computes for long between its calls: the watch warns after two hours
// and has no limit.
[[nodiscard]] MpiOptions host_options();

struct SessionOptions {
  // Options as for mpi_communicator(), with environment variables, but for thread_level: the
  // program's own counts.
  MpiOptions mpi = host_options();
  OnFailure on_failure = OnFailure::error;  // rank 0's counts on all ranks
};

// kolo in some ranks of a program with an MPI of its own. Several sessions may live at once, on
// overlapping communicators too; messages have the session's ranks. kolo neither initializes nor
// finalizes MPI here, calls nothing on MPI_COMM_WORLD, and leaves the communicator that it was
// given as it is: error handler, attributes, pending messages.
//
// Threads: MPI is called by the thread that calls kolo, inside that call; with thread level
// `multiple` by threads of kolo's own as well. Where all ranks share the memory of one node,
// collectives, transfers, sets and allocations make no call of MPI's, and kolo's threads work in
// the background under each level (capabilities().asynchronous and concurrent). Otherwise all calls
// are the main thread's with `single` and `funneled`, and with less than `multiple` no two threads
// may be in kolo or MPI at once.
//
// The ranks of a node know in a second what breaks a session, and the others when they wait for one
// of those. A rank that shares memory with no other is missed at the watch's limit, or by the
// launcher; so is, between nodes and with less than `multiple`, one that has let go of its handles.
// initialize() says after a minute, or the watch's warning time if that is shorter, that it waits.
class Session {
 public:
  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) noexcept = default;
  // Never communicates. Without finalize() the session keeps its objects of MPI's, and its handles
  // go on to work, until MPI_Finalize.
  ~Session() = default;

  // StateError after finalize(), and after MPI_Finalize. Copies mean the same group.
  [[nodiscard]] const Communicator& communicator() const;

  // Ends the session, on all ranks together, before MPI_Finalize. Pending collectives are finished,
  // transfers that nobody has waited for fail; then kolo's threads end, and everything is given
  // back to MPI and the system. Later calls are StateErrors; a second finalize() does nothing.
  //
  // A broken session ends locally, and leaves MPI's objects to MPI; so does one that another rank
  // has left, with a CommunicationError. Error on all ranks, and the session goes on, where another
  // rank calls something else.
  void finalize();
  [[nodiscard]] bool is_finalized() const;

 private:
  friend Session initialize(MPI_Comm communicator, const SessionOptions& options);
  Session(Communicator communicator, std::shared_ptr<MpiKeeping> keeping)
      : communicator_(std::move(communicator)), keeping_(std::move(keeping)) {}

  std::optional<Communicator> communicator_;  // none: it is finalized
  std::shared_ptr<MpiKeeping> keeping_;       // null: it has been moved from
};

// Makes a session of the ranks of a communicator, which may be freed before the session.
// Collective. StateError where MPI is not initialized, or finalized, or its thread level forbids
// this thread; InputError where this process has another MPI than kolo's, for MPI_COMM_NULL and
// inter-communicators, and as in mpi_communicator().
[[nodiscard]] Session initialize(MPI_Comm communicator, const SessionOptions& options = {});

}  // namespace kolo
