#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/file_failure.h"
#include "comm/job.h"
#include "comm/mpi/mpi_keeping.h"
#include "comm/mpi/mpi_runtime.h"
#include "comm/watch/watch.h"
#include "kolo/base/checked.h"
#include "kolo/base/file.h"
#include "kolo/comm/mpi.h"

// The communicator of an MPI job.
namespace kolo {

namespace {

// One number per rank, equal on the same node: the lowest world rank there.
int real_node_id(const MpiGroup& ranks) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(ranks.get(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  int id = ranks.rank();
  check_mpi(MPI_Bcast(&id, 1, MPI_INT, 0, node), "MPI_Bcast");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  return id;
}

int node_id_of(const MpiGroup& ranks, const std::vector<int>& ranks_on_nodes) {
  if (ranks_on_nodes.empty()) return real_node_id(ranks);
  return pretended_nodes(ranks.size(), ranks_on_nodes)[static_cast<std::size_t>(ranks.rank())];
}

void require_shared_memory(const Backend& backend) {
  if (backend.capabilities().shared_memory) return;
  const Topology& topology = backend.topology();
  throw Error(topology.nodes < topology.size
                  ? "comm: the ranks of some node can't share memory, but shared memory was asked "
                    "for: there is no memory left, or they see neither each other's /proc nor "
                    "one /dev/shm; use shared_memory: auto"
                  : "comm: shared memory was asked for, but no node has two ranks; use "
                    "shared_memory: auto");
}

MpiJob make_job(const std::shared_ptr<const MpiRuntime>& runtime,
                const std::shared_ptr<MpiKeeping>& keeping, const MpiOptions& options) {
  const int node_id = node_id_of(keeping->objects_of_all().all, options.ranks_on_nodes);
  auto backend = make_mpi_backend(runtime, keeping, node_id, options);
  if (options.shared_memory == SharedMemory::on) require_shared_memory(*backend);
  return {make_job_communicator(std::move(backend), options, keeping->background_threads()),
          keeping};
}

}  // namespace

MpiJob make_mpi_job(std::shared_ptr<const MpiRuntime> runtime, const MpiGroup& group,
                    const MpiOptions& wanted, MpiRules rules) {
  rules.level = static_cast<ThreadLevel>(group.least(static_cast<int>(rules.level)));
  const auto broadcast = [&group](std::span<std::byte> bytes) {
    check_mpi(MPI_Bcast(bytes.data(), narrow<int>(bytes.size()), MPI_BYTE, 0, group.get()),
              "MPI_Bcast");
  };
  const auto keeping = MpiKeeping::make(group, rules);
  try {
    return make_job(runtime, keeping, with_options_of_rank_0(broadcast, wanted));
  } catch (...) {
    if (rules.is_session) keeping->finish();
    throw;
  }
}

namespace {

// Leaves out PMIx's variables where the program has initialized MPI: MPI may have set them itself.
LaunchEnvironment environment_at_start() {
  if (!is_mpi_initialized()) return detect_launch_environment();
  return detect_launch_environment([](const char* name) {
    return std::string_view(name).starts_with("PMIX_") ? std::nullopt : environment_variable(name);
  });
}

std::string describe_process(const LaunchEnvironment& environment) {
  if (!environment.is_launched()) return fmt::format("process {}", ::getpid());
  return fmt::format("rank {}{}", environment.rank,
                     environment.size_is_known ? fmt::format(" of {}", environment.size) : "");
}

// Refuses a launcher that this MPI doesn't know: before MPI can end the program, and once MPI has
// said how many ranks it sees.
std::shared_ptr<const MpiRuntime> start_mpi(const MpiOptions& options,
                                            const LaunchEnvironment& environment) {
  const auto mpi = parse_mpi_version(mpi_library_version());
  if (!is_mpi_initialized()) {
    if (options.launcher_check) require_suitable_launcher(environment, mpi);
    if (environment.is_launched())
      require_room_for_shared_memory("comm", file_size_limit(),
                                     "start one rank, without a launcher");
  }
  auto runtime = std::make_shared<const MpiRuntime>(options.thread_level, environment);
  int size = 1;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (options.launcher_check) require_all_ranks(environment, mpi, size);
  return runtime;
}

}  // namespace

Communicator mpi_communicator(const MpiOptions& given) {
  open_standard_streams();
  require_one_mpi();
  const MpiOptions wanted = with_environment(given);
  const auto environment = environment_at_start();
  const StartWatch watch(wanted.watch, describe_process(environment));
  const auto runtime = start_mpi(wanted, environment);
  const auto all = MpiGroup::of(MPI_COMM_WORLD);
  const MpiJob job = make_mpi_job(runtime, all, wanted,
                                  {.level = granted_thread_level(), .aborted = MPI_COMM_WORLD});
  if (runtime->is_owner()) finalize_at_exit(job.communicator.rank());
  return job.communicator;
}

}  // namespace kolo
