#include "cli/doctor/checks.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/text.h"
#include "kolo/comm/device.h"
#include "kolo/comm/mpi.h"
#include "kolo/comm/processes.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/child.h"
#include "run/launch/launch_advice.h"

// Checks of launchers and of two ranks that they start.
namespace kolo {

namespace {

using nlohmann::json;

constexpr std::chrono::seconds probe_deadline{30};

std::vector<std::string> probe_command() {
  return {std::filesystem::read_symlink("/proc/self/exe"), "doctor", "--probe"};
}

// JSON that rank 0 printed; nothing if the probe failed.
std::optional<json> answer_of(const ProbeResult& result) {
  if (result.status != 0) return std::nullopt;
  const auto start = result.output.find('{');
  if (start == std::string::npos) return std::nullopt;
  auto answer = json::parse(result.output.substr(start), nullptr, false);
  if (answer.is_discarded()) return std::nullopt;
  return answer;
}

// First line of a failed probe's output that isn't decoration.
std::string complaint_of(const ProbeResult& result) {
  if (!result.status) return fmt::format("no answer within {} s", probe_deadline.count());
  std::istringstream lines(result.errors + result.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of("- \t\r") != std::string::npos) return line;
  }
  return fmt::format("exit status {}", *result.status);
}

// Transport of an all-reduce in GPUs' memory; empty without GPUs. Error if the sum is wrong.
// Collective.
std::string try_devices(const Communicator& communicator) {
  const auto device = take_device(communicator, /*may_share=*/true);
  if (device.is_cpu()) return {};
  const auto values =
      torch::full({1 << 16}, communicator.rank() + 1., torch::TensorOptions(device));
  all_reduce(communicator, values, ReduceOp::sum);
  const double ranks = communicator.size();
  const double sum = values.sum().item<double>(),
               expected = values.numel() * ranks * (ranks + 1) / 2;
  if (sum != expected)
    throw Error(fmt::format("doctor: the sum of the ranks' GPUs is {}, not {}", sum, expected));
  return communicator.capabilities().device_transport;
}

}  // namespace

int run_probe() {
  const auto communicator = job_communicator();
  const auto sum = all_reduce_value<std::int64_t>(communicator, communicator.rank() + 1);
  const auto on_devices = try_devices(communicator);
  if (communicator.rank() != 0) return 0;
  const auto capabilities = communicator.capabilities();
  std::cout << json{{"ranks", communicator.size()},
                    {"sum", sum},
                    {"thread_level", capabilities.thread_level},
                    {"transport", capabilities.transport},
                    {"device_transport", on_devices}}
                   .dump()
            << std::endl;
  return 0;
}

Finding check_mpi_library() {
  const auto version = mpi_library_version();
  Finding finding{.name = "MPI", .text = version.substr(0, version.find_first_of("\n,"))};
  if (finding.text.empty())
    return {.name = "MPI", .text = "left out (KOLO_MPI); -n starts ranks on this machine alone"};
  const auto result = probe({.argv = probe_command()}, probe_deadline);
  const auto answer = answer_of(result);
  if (!answer) {
    finding.text += ", but it does not start: " + complaint_of(result);
    finding.fail("check the installation: mpirun -n 1 hostname");
    return finding;
  }
  const auto level = answer->value("thread_level", "");
  finding.text += fmt::format(", thread level '{}'", level);
  if (level != "multiple") {
    finding.warn(
        "communication can't overlap with backward below 'multiple'; use an MPI built with "
        "threads");
  }
  return finding;
}

Finding check_empty_job(const std::string& launcher, const EmptyJob& job,
                        const LaunchConditions& conditions,
                        const std::vector<std::string>& interfaces) {
  constexpr double long_time = 1;
  if (job.seconds && *job.seconds < long_time)
    return {.name = "launcher",
            .text = fmt::format("{}; an empty job of two takes {:.2f} s", launcher, *job.seconds)};
  Finding finding{.name = "launcher",
                  .status = job.seconds ? FindingStatus::warning : FindingStatus::problem};
  finding.text = job.seconds
                     ? fmt::format("{}; an empty job of two takes {:.1f} s", launcher, *job.seconds)
                     : fmt::format("{} does not start an empty job: {}", launcher, job.complaint);
  const auto reasons = usual_reasons(conditions);
  if (!reasons.empty()) {
    finding.remedy = join(reasons, "; ");
    return finding;
  }
  finding.text += fmt::format(
      "; names are looked up at once, /dev/shm has room, network interfaces: {}", join(interfaces));
  finding.remedy = "see where the time goes: strace -f -r " + job.command;
  return finding;
}

namespace {

// Starts two programs that do nothing, as ranks are started.
Finding try_launcher(const MachineFacts& machine, const std::vector<NameLookup>& lookups) {
  const LaunchRequest request{.ranks = 2, .oversubscribe = true, .command = {"true"}};
  const auto command = rank_command(request, machine);
  EmptyJob job{.command = join(command.argv, " ")};
  const Stopwatch stopwatch;
  const auto result = probe(command, probe_deadline);
  if (result.status == 0)
    job.seconds = stopwatch.seconds();
  else
    job.complaint = complaint_of(result);
  return check_empty_job(machine.program, job,
                         {.ranks = request.ranks,
                          .shared_memory = examine_shared_memory(),
                          .file_size_limit = machine.file_size_limit,
                          .names = lookups},
                         network_interfaces());
}

}  // namespace

Finding check_launcher(const LaunchEnvironment& environment,
                       const std::vector<NameLookup>& lookups) {
  MachineFacts machine;
  try {
    machine = examine_machine(environment, LauncherChoice::mpi);
  } catch (const std::exception& error) {
    return {.name = "launcher",
            .text = fmt::format("none, and one machine needs none ({})", error.what())};
  }
  Finding finding{.name = "launcher", .text = machine.program};
  // Other launchers may wait for a scheduler.
  if (environment.is_launched() || !is_mpirun(machine.launcher) || !machine.job_hosts.empty())
    return finding;
  try {
    return try_launcher(machine, lookups);
  } catch (const InputError& error) {
    finding.text += " can't be started";
    finding.fail(error.what());
  }
  return finding;
}

Finding check_two_ranks(const LaunchEnvironment& environment, LauncherChoice choice) {
  const bool by_mpi = choice == LauncherChoice::mpi;
  Finding finding{.name = by_mpi ? "two by MPI" : "two ranks",
                  .text = "not tried without a launcher"};
  if (environment.is_launched()) {
    finding.text =
        fmt::format("not tried, because {} has started this program", environment.launcher);
    return finding;
  }
  try {
    (void)examine_machine(environment, choice);
  } catch (const std::exception&) {
    return finding;
  }
  RankCommand command{.argv = probe_command()};
  command.argv.insert(command.argv.begin(),
                      {command.argv.front(), "run", "-n", "2", "--oversubscribe", "--launcher",
                       std::string(name_of(choice))});
  const auto result = probe(command, probe_deadline);
  const auto answer = answer_of(result);
  if (!answer || answer->value("ranks", 0) != 2 || answer->value("sum", 0) != 3) {
    finding.text = answer
                       ? fmt::format("they started as {} rank(s) each", answer->value("ranks", 0))
                       : complaint_of(result);
    finding.fail("try it by hand: " + join(command.argv, " "));
    return finding;
  }
  finding.text =
      fmt::format("started by {}, all-reduce done by {}", by_mpi ? "MPI's launcher" : "kolo itself",
                  answer->value("transport", ""));
  if (const auto transport = answer->value("device_transport", ""); !transport.empty())
    finding.text += fmt::format("; of GPUs' memory by {}", transport);
  return finding;
}

}  // namespace kolo
