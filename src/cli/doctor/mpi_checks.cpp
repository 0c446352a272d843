#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/doctor/checks.h"
#include "kolo/comm/mpi.h"
#include "kolo/launch/launch_ranks.h"
#include "launch/supervise.h"

namespace kolo {

namespace {

using nlohmann::json;

constexpr std::chrono::seconds probe_deadline{30};

std::vector<std::string> probe_command() {
  return {std::filesystem::read_symlink("/proc/self/exe"), "doctor", "--probe"};
}

// The line of JSON that rank 0 printed; nothing when the probe failed.
std::optional<json> answer_of(const ProbeResult& result) {
  if (result.status != 0) return std::nullopt;
  const auto start = result.output.find('{');
  if (start == std::string::npos) return std::nullopt;
  auto answer = json::parse(result.output.substr(start), nullptr, false);
  if (answer.is_discarded()) return std::nullopt;
  return answer;
}

// What went wrong, in one line: the first that isn't decoration.
std::string complaint_of(const ProbeResult& result) {
  if (!result.status) return fmt::format("no answer within {} s", probe_deadline.count());
  std::istringstream lines(result.errors + result.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of("- \t\r") != std::string::npos) return line;
  }
  return fmt::format("exit status {}", *result.status);
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\n,"));
}

}  // namespace

int run_probe() {
  const auto communicator = mpi_communicator();
  const auto sum = all_reduce_value<std::int64_t>(communicator, communicator.rank() + 1);
  if (communicator.rank() != 0) return 0;
  const auto capabilities = communicator.capabilities();
  std::cout << json{{"ranks", communicator.size()},
                    {"sum", sum},
                    {"thread_level", capabilities.thread_level},
                    {"transport", capabilities.transport}}
                   .dump()
            << std::endl;
  return 0;
}

Finding check_mpi_library() {
  Finding finding{.name = "MPI", .text = first_line(mpi_library_version())};
  const auto result = probe({.argv = probe_command()}, probe_deadline);
  const auto answer = answer_of(result);
  if (!answer) {
    finding.status = FindingStatus::problem;
    finding.text += ", but it does not start: " + complaint_of(result);
    finding.remedy = "check the installation: mpirun -n 1 hostname";
    return finding;
  }
  const auto level = answer->value("thread_level", "");
  finding.text += fmt::format(", thread level '{}'", level);
  if (level != "multiple") {
    finding.status = FindingStatus::warning;
    finding.remedy =
        "communication can't overlap with backward below 'multiple'; use an MPI built with "
        "threads";
  }
  return finding;
}

Finding check_launcher(const LaunchEnvironment& environment) {
  Finding finding{.name = "launcher"};
  try {
    finding.text = examine_machine(environment).program;
  } catch (const std::exception& error) {
    finding.status = FindingStatus::warning;
    finding.text = "none: only one rank can be started";
    finding.remedy = error.what();
  }
  return finding;
}

Finding check_two_ranks(const LaunchEnvironment& environment) {
  Finding finding{.name = "two ranks"};
  if (environment.is_launched()) {
    finding.text =
        fmt::format("not tried, because {} has started this program", environment.launcher);
    return finding;
  }
  RankCommand command;
  try {
    command = rank_command({.ranks = 2, .oversubscribe = true, .command = probe_command()},
                           examine_machine(environment));
  } catch (const std::exception&) {
    finding.status = FindingStatus::warning;
    finding.text = "not tried without a launcher";
    return finding;
  }
  const auto result = probe(command, probe_deadline);
  const auto answer = answer_of(result);
  if (!answer || answer->value("ranks", 0) != 2 || answer->value("sum", 0) != 3) {
    finding.status = FindingStatus::problem;
    finding.text = answer
                       ? fmt::format("they started as {} rank(s) each", answer->value("ranks", 0))
                       : complaint_of(result);
    finding.remedy = "try it by hand: " + fmt::format("{}", fmt::join(command.argv, " "));
    return finding;
  }
  finding.text = fmt::format("started, all-reduce done by {}", answer->value("transport", ""));
  return finding;
}

}  // namespace kolo
