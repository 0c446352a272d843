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

// MPI's thread levels (MPI-4, section 11.6).
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

  // Makes the communicator a checked one: Communicator::checked().
  bool checked = false;

  DeviceOptions devices;

  // mpi_communicator() refuses a launcher that has started more processes than MPI connects. A
  // session's program knows its ranks, and is not checked.
  bool launcher_check = true;

  WatchOptions watch;

  // Sizes that tests make small to reach the paths for large buffers.
  std::int64_t largest_count = std::int64_t{1} << 30;  // elements in one MPI call
  // Shared memory per rank, besides allocate(); transfers have a quarter of it more.
  std::size_t staging_bytes = std::size_t{1} << 20;
  std::size_t whole_limit_bytes = 8192;  // all-reduces up to here are done whole by every rank

  // Pretends that consecutive ranks are on nodes of these sizes, for example {2, 1}; only ranks
  // that really share a node may be put together. Empty: as it is.
  std::vector<int> ranks_on_nodes;
};

// All processes of the MPI job. kolo initializes MPI where the program has not, and finalizes it
// then with the last handle, or where the program ends with status 0. Calls after MPI_Finalize, and
// in a fork of the process, are StateErrors. For part of a program's ranks, or an MPI that kolo
// must not end: kolo/comm/session.h.
//
// A process that nobody started is one rank. WrongLauncher (kolo/comm/launcher.h) where it is one
// of several that MPI does not connect, because a launcher of another MPI has started them, or kolo
// is built without MPI (KOLO_MPI).
//
// Collective; call it once, from the main thread. Environment variables overrule options:
// KOLO_LAUNCHER_CHECK, KOLO_CHECKED and KOLO_WATCH (on, off), KOLO_WATCH_WARNING and
// KOLO_WATCH_LIMIT (seconds), KOLO_WATCH_FOLDER, KOLO_DEVICE_CHANNEL (DeviceChannelKind);
// InputError for other values. Rank 0's options and variables count on all ranks, but for the
// folder and the report.
[[nodiscard]] Communicator mpi_communicator(const MpiOptions& options = {});

// "Open MPI v4.1.4, ..."; needs no initialization. Empty: kolo is built without MPI.
[[nodiscard]] std::string mpi_library_version();

}  // namespace kolo
