#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/file_failure.h"
#include "base/standard_streams.h"
#include "comm/device/device_backend.h"
#include "comm/executor.h"
#include "comm/messages.h"
#include "comm/mpi/mpi_keeping.h"
#include "comm/mpi/mpi_runtime.h"
#include "comm/transfers/transfer_desk.h"
#include "comm/watch/watch.h"
#include "kolo/base/checked.h"
#include "kolo/comm/mpi.h"

// The communicator of an MPI job, and what decides how it works: options, the environment, and
// rank 0, whose count on all ranks.
namespace kolo {

namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return std::string(value);
}

[[noreturn]] void refuse(const char* name, const std::string& value, const char* accepted) {
  throw InputError(
      fmt::format("the environment variable {} is \"{}\"; expected {}", name, value, accepted));
}

void read_switch(const char* name, bool& target) {
  const auto value = variable(name);
  if (!value) return;
  if (*value == "on" || *value == "1")
    target = true;
  else if (*value == "off" || *value == "0")
    target = false;
  else
    refuse(name, *value, "on, off, 1 or 0");
}

void read_seconds(const char* name, std::chrono::duration<double>& target) {
  const auto value = variable(name);
  if (!value) return;
  char* end = nullptr;
  const double seconds = std::strtod(value->c_str(), &end);
  if (end == value->c_str() || *end != 0 || !std::isfinite(seconds) || seconds < 0 || seconds > 1e9)
    refuse(name, *value, "seconds, 0 or more (0: never)");
  target = std::chrono::duration<double>(seconds);
}

}  // namespace

MpiOptions with_environment(MpiOptions options) {
  read_switch("KOLO_CHECKED", options.checked);
  bool are_launchers_checked = options.launcher_check != LauncherCheck::off;
  read_switch("KOLO_LAUNCHER_CHECK", are_launchers_checked);
  if (!are_launchers_checked)
    options.launcher_check = LauncherCheck::off;
  else if (options.launcher_check == LauncherCheck::off)
    options.launcher_check = LauncherCheck::certain;
  read_switch("KOLO_WATCH", options.watch.enabled);
  read_seconds("KOLO_WATCH_WARNING", options.watch.warning);
  read_seconds("KOLO_WATCH_LIMIT", options.watch.limit);
  if (const auto folder = variable("KOLO_WATCH_FOLDER")) options.watch.folder = *folder;
  if (const auto channel = variable("KOLO_DEVICE_CHANNEL"))
    options.devices.channel =
        named<DeviceChannelKind>("the environment", "KOLO_DEVICE_CHANNEL", *channel);
  return options;
}

namespace {

// What decides collectives, as plain numbers.
struct Settings {
  std::int32_t checked = 0, watch = 0, shared_memory = 0, nodes = 0;
  double warning = 0, limit = 0;
  std::int64_t largest_count = 0, staging_bytes = 0, whole_limit_bytes = 0;
  std::int64_t device_channel = 0, device_staging_bytes = 0;
};

Settings settings_of(const MpiOptions& options) {
  return {.checked = options.checked,
          .watch = options.watch.enabled,
          .shared_memory = static_cast<std::int32_t>(options.shared_memory),
          .nodes = narrow<std::int32_t>(options.ranks_on_nodes.size()),
          .warning = options.watch.warning.count(),
          .limit = options.watch.limit.count(),
          .largest_count = options.largest_count,
          .staging_bytes = narrow<std::int64_t>(options.staging_bytes),
          .whole_limit_bytes = narrow<std::int64_t>(options.whole_limit_bytes),
          .device_channel = static_cast<std::int64_t>(options.devices.channel),
          .device_staging_bytes = narrow<std::int64_t>(options.devices.staging_bytes)};
}

void put_into(MpiOptions& options, const Settings& settings) {
  options.checked = settings.checked != 0;
  options.watch.enabled = settings.watch != 0;
  options.watch.warning = std::chrono::duration<double>(settings.warning);
  options.watch.limit = std::chrono::duration<double>(settings.limit);
  options.shared_memory = static_cast<SharedMemory>(settings.shared_memory);
  options.largest_count = settings.largest_count;
  options.staging_bytes = static_cast<std::size_t>(settings.staging_bytes);
  options.whole_limit_bytes = static_cast<std::size_t>(settings.whole_limit_bytes);
  options.devices.channel = static_cast<DeviceChannelKind>(settings.device_channel);
  options.devices.staging_bytes = static_cast<std::size_t>(settings.device_staging_bytes);
}

// A setting in words: its name and value.
struct Named {
  const char* name;
  std::string value;
};

std::array<Named, 10> in_words(const MpiOptions& options) {
  const auto on_or_off = [](bool value) { return std::string(value ? "on" : "off"); };
  constexpr std::array shared_memory = {"auto", "on", "off"};
  return {{{"KOLO_CHECKED (MpiOptions::checked)", on_or_off(options.checked)},
           {"KOLO_WATCH (MpiOptions::watch)", on_or_off(options.watch.enabled)},
           {"KOLO_WATCH_WARNING", fmt::format("{} s", options.watch.warning.count())},
           {"KOLO_WATCH_LIMIT", fmt::format("{} s", options.watch.limit.count())},
           {"MpiOptions::shared_memory",
            shared_memory.at(static_cast<std::size_t>(options.shared_memory))},
           {"MpiOptions::ranks_on_nodes", fmt::format("{}", options.ranks_on_nodes)},
           {"MpiOptions::largest_count", fmt::format("{}", options.largest_count)},
           {"MpiOptions::staging_bytes and whole_limit_bytes",
            fmt::format("{} and {}", options.staging_bytes, options.whole_limit_bytes)},
           {"KOLO_DEVICE_CHANNEL (DeviceOptions::channel)",
            std::string(name_of(options.devices.channel))},
           {"DeviceOptions::staging_bytes", fmt::format("{}", options.devices.staging_bytes)}}};
}

// The lowest rank in which a setting differs says so.
void say_what_differs(const MpiGroup& ranks, const MpiOptions& own, const MpiOptions& of_rank_0) {
  const auto mine = in_words(own), counting = in_words(of_rank_0);
  std::array<int, std::tuple_size_v<decltype(in_words(own))>> first{};
  for (std::size_t i = 0; i < first.size(); ++i)
    first[i] = mine[i].value == counting[i].value ? std::numeric_limits<int>::max() : ranks.rank();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, first.data(), narrow<int>(first.size()), MPI_INT, MPI_MIN,
                          ranks.get()),
            "MPI_Allreduce");
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] != ranks.rank()) continue;
    print_line(
        fmt::format("comm: {} is {} on rank {} and {} on rank 0; rank 0's counts for all ranks",
                    mine[i].name, mine[i].value, ranks.rank(), counting[i].value));
  }
}

// The options with rank 0's values in place of all that decides which collectives the ranks do, or
// how. Where a rank's own differ, it is said on stderr, once for each of them. Collective.
MpiOptions with_options_of_rank_0(const MpiGroup& ranks, const MpiOptions& own) {
  MpiOptions result = own;
  Settings settings = settings_of(own);
  check_mpi(MPI_Bcast(&settings, sizeof(settings), MPI_BYTE, 0, ranks.get()), "MPI_Bcast");
  put_into(result, settings);
  result.ranks_on_nodes.resize(static_cast<std::size_t>(settings.nodes));
  check_mpi(MPI_Bcast(result.ranks_on_nodes.data(), settings.nodes, MPI_INT, 0, ranks.get()),
            "MPI_Bcast");
  say_what_differs(ranks, own, result);
  return result;
}

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

// The number of the pretended node that a rank is on.
int forced_node_id(int rank, int size, const std::vector<int>& ranks_on_nodes) {
  int id = -1, end = 0;
  for (std::size_t node = 0; node < ranks_on_nodes.size(); ++node) {
    if (rank >= end && rank < end + ranks_on_nodes[node]) id = static_cast<int>(node);
    end += ranks_on_nodes[node];
  }
  if (id < 0 || end != size) {
    throw Error(fmt::format("comm: the nodes given hold {} ranks, but the job has {}", end, size));
  }
  return id;
}

int node_id_of(const MpiGroup& ranks, const std::vector<int>& ranks_on_nodes) {
  return ranks_on_nodes.empty() ? real_node_id(ranks)
                                : forced_node_id(ranks.rank(), ranks.size(), ranks_on_nodes);
}

std::string words_of_end(const MpiRules& rules, MpiKeeping::End end) {
  if (end == MpiKeeping::End::silent) {
    return "comm: MPI has been finalized, so there is no communication any more; call "
           "Session::finalize() after the last collective, before MPI_Finalize";
  }
  return rules.is_session
             ? "comm: the session has been finalized, so there is no communication any more; call "
               "Session::finalize() after the last collective"
             : "comm: MPI has been finalized, so there is no communication any more; call "
               "MPI_Finalize after the last collective";
}

// What is to end when MPI does, while somebody still has it.
template <typename T, typename Action>
void end_with(MpiKeeping& keeping, const std::shared_ptr<T>& ending, const Action& action) {
  keeping.at_end([weak = std::weak_ptr(ending), action](MpiKeeping::End end) {
    if (const auto present = weak.lock()) action(*present, end);
  });
}

// In this order: collectives that are pending, transfers, the watch, which knows of both.
void end_with(MpiKeeping& keeping, const std::shared_ptr<Executor>& executor,
              const std::shared_ptr<TransferThread>& transfers) {
  const MpiRules rules = keeping.rules();
  end_with(keeping, executor, [rules](Executor& present, MpiKeeping::End end) {
    present.close(words_of_end(rules, end));
  });
  if (!transfers) return;
  end_with(keeping, transfers, [rules](TransferThread& present, MpiKeeping::End end) {
    if (rules.is_session)
      present.stop(words_of_end(rules, end));
    else
      present.close(words_of_end(rules, end));
  });
}

void require_shared_memory(const Backend& backend) {
  if (backend.capabilities().shared_memory) return;
  const Topology& topology = backend.topology();
  throw Error(topology.nodes < topology.size
                  ? "comm: the ranks of some node can't share memory, but shared memory was asked "
                    "for; make room in /dev/shm or use shared_memory: auto"
                  : "comm: shared memory was asked for, but no node has two ranks; use "
                    "shared_memory: auto");
}

MpiJob make_job(const std::shared_ptr<const MpiRuntime>& runtime,
                const std::shared_ptr<MpiKeeping>& keeping, const MpiOptions& options) {
  const int node_id = node_id_of(keeping->objects_of_all().all, options.ranks_on_nodes);
  const auto devices = std::make_shared<DeviceSharing>(options.devices);
  const auto backend = std::make_shared<DeviceBackend>(
      make_mpi_backend(runtime, keeping, node_id, options), devices);
  if (options.shared_memory == SharedMemory::on) require_shared_memory(*backend);
  const auto executor = std::make_shared<Executor>(backend->capabilities().asynchronous);
  const auto transfers = backend->transfers();
  end_with(*keeping, executor, transfers ? transfers->thread() : nullptr);
  end_with(*keeping, devices,
           [](DeviceSharing& present, MpiKeeping::End) { present.poller().stop(); });
  const Communicator plain(backend, executor);
  if (options.watch.enabled && plain.size() > 1) {
    const auto watch = std::make_shared<Watch>(backend, options.watch);
    plain.add_listener(watch);
    // In a session all ranks end together, and nobody is there who would wait.
    const bool says_goodbye = !keeping->rules().is_session;
    end_with(*keeping, watch,
             [says_goodbye](Watch& present, MpiKeeping::End) { present.stop(says_goodbye); });
  }
  return {options.checked ? plain.checked() : plain, executor, keeping};
}

}  // namespace

MpiJob make_mpi_job(std::shared_ptr<const MpiRuntime> runtime, const MpiGroup& group,
                    const MpiOptions& wanted, MpiRules rules) {
  rules.level = static_cast<ThreadLevel>(group.least(static_cast<int>(rules.level)));
  const bool is_kolos_own = group.all_ranks(runtime && runtime->is_owner());
  rules.threads_may_call = rules.level == ThreadLevel::multiple ||
                           (rules.level == ThreadLevel::serialized && is_kolos_own);
  const auto keeping = MpiKeeping::make(group, rules);
  try {
    return make_job(runtime, keeping, with_options_of_rank_0(group, wanted));
  } catch (...) {
    if (rules.is_session) keeping->finish();
    throw;
  }
}

namespace {

// Where the program has initialized MPI, PMIx may have set variables that nobody started it with.
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

// Refuses a launcher that this MPI doesn't know: before it can end the program, and as soon as it
// has said how many ranks it sees.
std::shared_ptr<const MpiRuntime> start_mpi(const MpiOptions& options,
                                            const LaunchEnvironment& environment) {
  const auto mpi = parse_mpi_version(mpi_library_version());
  if (!is_mpi_initialized()) {
    require_suitable_launcher(environment, mpi, options.launcher_check);
    if (environment.is_launched())
      require_room_for_shared_memory("comm", file_size_limit(),
                                     "start one rank, without a launcher");
  }
  auto runtime = std::make_shared<const MpiRuntime>(options.thread_level, environment);
  int size = 1;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (options.launcher_check != LauncherCheck::off) require_all_ranks(environment, mpi, size);
  return runtime;
}

}  // namespace

Communicator mpi_communicator(const MpiOptions& given) {
  open_standard_streams();
  require_one_mpi();
  const MpiOptions wanted = with_environment(given);
  const auto environment = environment_at_start();
  const StartWatch watch(wanted.watch, describe_process(environment),
                         StartWatch::AtLimit::process_ends);
  const auto runtime = start_mpi(wanted, environment);
  const auto all = MpiGroup::of(MPI_COMM_WORLD);
  const MpiJob job =
      make_mpi_job(runtime, all, wanted, {.level = runtime->granted(), .aborted = MPI_COMM_WORLD});
  if (runtime->is_owner()) finalize_at_exit(job.communicator.rank());
  return job.communicator;
}

}  // namespace kolo
