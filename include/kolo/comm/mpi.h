#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/comm/communicator.h"
#include "kolo/comm/launcher.h"
#include "kolo/comm/watch.h"

namespace kolo {

// How much MPI lets threads call it (MPI-4, section 11.6).
enum class ThreadLevel : std::uint8_t { single, funneled, serialized, multiple };

[[nodiscard]] std::string_view name_of(ThreadLevel level);

enum class SharedMemory : std::uint8_t { automatic, on, off };

constexpr auto enum_names(SharedMemory) {
  return std::to_array<EnumName<SharedMemory>>(
      {{SharedMemory::automatic, "auto"}, {SharedMemory::on, "on"}, {SharedMemory::off, "off"}});
}

struct MpiOptions {
  // Level asked of MPI_Init_thread. With `multiple` every communicator has a communication thread
  // of its own. With less, asynchronous collectives run before their call returns, but among ranks
  // that share the memory of one node.
  ThreadLevel thread_level = ThreadLevel::multiple;

  // Ranks of a node reduce out of each other's memory, and MPI only carries slices between nodes.
  // Automatic: where they can share memory. On: an Error where they can't.
  SharedMemory shared_memory = SharedMemory::automatic;

  // The communicator is a checked one: Communicator::checked().
  bool checked = false;

  // Collectives on devices' memory.
  DeviceOptions devices;

  // Whether mpi_communicator() goes on where a launcher has started more processes than MPI
  // connects. Not of a session, whose program knows its ranks.
  LauncherCheck launcher_check = LauncherCheck::certain;

  WatchOptions watch;

  // Sizes that tests make small to reach the paths for large buffers.
  std::int64_t largest_count = std::int64_t{1} << 30;  // elements in one MPI call
  // Of shared memory per rank, besides allocate(); transfers have a quarter of it more.
  std::size_t staging_bytes = std::size_t{1} << 20;
  std::size_t whole_limit_bytes = 8192;  // all-reduces up to here are done whole by every rank

  // Pretends that consecutive ranks are on nodes of these sizes, for example {2, 1}; only ranks
  // that really share a node may be put together. Empty: as it is.
  std::vector<int> ranks_on_nodes;
};

// All processes of the MPI job. MPI is initialized when it is not, and finalized then with the last
// handle, or where the program ends with status 0; one that the program has initialized is
// respected, with the thread level it has. Every call after MPI_Finalize is a StateError, and so it
// is in a fork of the process. For part of a program's ranks, or an MPI that kolo must not end:
// kolo/comm/session.h.
//
// A process that nobody started is one rank. WrongLauncher (kolo/comm/launcher.h) where the
// environment says that it is one of several which MPI does not connect, because a launcher of
// another MPI has started them, or kolo is built without MPI (KOLO_MPI).
//
// Collective; call it once, from the main thread. Environment variables overrule options:
// KOLO_LAUNCHER_CHECK (off: nobody is refused), KOLO_CHECKED (1, 0), KOLO_WATCH (on, off),
// KOLO_WATCH_WARNING and KOLO_WATCH_LIMIT (seconds), KOLO_WATCH_FOLDER, KOLO_DEVICE_CHANNEL
// (DeviceChannelKind); InputError for what they can't mean. Rank 0's options and variables count on
// all ranks, but for the folder and the report.
[[nodiscard]] Communicator mpi_communicator(const MpiOptions& options = {});

// "Open MPI v4.1.4, ..." without initializing. Empty: kolo is built without MPI.
[[nodiscard]] std::string mpi_library_version();

}  // namespace kolo
