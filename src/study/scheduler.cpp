#include "kolo/study/scale_study.h"

#include <chrono>
#include <sstream>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/supervise.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds longest_answer{120};  // of a busy scheduler

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string submitter(const SchedulerOptions& options) {
  return options.name == "slurm" ? "sbatch" : "qsub";
}

// Beside the program, where it is installed or in the sources that it was built from; or here.
fs::path own_script(const std::string& scheduler) {
  const fs::path script = scheduler == "slurm" ? "submit/slurm/train.sh" : "submit/pbs/polaris.sh";
  const auto folder_of_program = fs::path(own_program()).parent_path();
  const auto installed = folder_of_program.parent_path() / "share/kolo" / script;
  if (fs::exists(installed)) return installed;
  for (auto folder = folder_of_program; folder.has_relative_path(); folder = folder.parent_path())
    if (fs::exists(folder / script)) return folder / script;
  if (fs::exists(script)) return fs::absolute(script);
  throw InputError(
      fmt::format("--submit {}: {} is neither beside this program ({}) nor here; name a "
                  "script with --job-script FILE",
                  scheduler, script.string(), installed.string()));
}

// Without the blank and the line's end after it, and Slurm's ";cluster".
std::string first_word(const std::string& text) {
  const auto words = words_of(text);
  return words.empty() ? "" : words[0].substr(0, words[0].find(';'));
}

ProbeResult ask(const std::vector<std::string>& command) {
  const auto answer = probe({.argv = command, .environment = {}}, longest_answer);
  if (answer.status) return answer;
  throw Error(fmt::format("scheduler: {} did not answer within {} s", join(command, " "),
                          longest_answer.count()));
}

}  // namespace

SchedulerOptions checked(const SchedulerOptions& options) {
  if (options.name != "slurm" && options.name != "pbs")
    throw InputError(fmt::format("--submit {}: the schedulers are slurm and pbs", options.name));
  if (find_in_path(submitter(options)).empty())
    throw InputError(
        fmt::format("--submit {}: there is no {} in PATH; submit from a machine that "
                    "has it, or leave --submit out to run here",
                    options.name, submitter(options)));
  SchedulerOptions complete = options;
  if (options.script.empty()) complete.script = own_script(options.name);
  if (!fs::is_regular_file(complete.script))
    throw InputError(
        fmt::format("--job-script {}: there is no such file", options.script.string()));
  complete.script = fs::absolute(complete.script);
  return complete;
}

std::vector<std::string> submit_command(const SchedulerOptions& options, const StudyPoint& point,
                                        const std::string& job_name, const fs::path& log,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> command{submitter(options)};
  const int on_a_node = (point.ranks + point.nodes - 1) / point.nodes;
  if (options.name == "slurm") {
    command.insert(command.end(),
                   {"--parsable", fmt::format("--job-name={}", job_name),
                    fmt::format("--nodes={}", point.nodes), fmt::format("--ntasks={}", point.ranks),
                    fmt::format("--output={}", log.string())});
  } else {
    command.insert(command.end(), {"-N", job_name, "-j", "oe", "-o", log.string(), "-l",
                                   fmt::format("select={}:mpiprocs={}", point.nodes, on_a_node)});
  }
  for (const auto& word : words_of(options.options)) command.push_back(word);
  if (options.name == "pbs") command.emplace_back("--");  // what follows is run with its arguments
  command.push_back(options.script.string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::string submit(const std::vector<std::string>& command) {
  const auto answer = ask(command);
  const auto job = first_word(answer.output);
  if (*answer.status == 0 && !job.empty()) return job;
  throw Error(fmt::format("scheduler: {} ended with status {}: {}{}", command[0], *answer.status,
                          answer.errors, answer.output));
}

bool has_job(const SchedulerOptions& options, const std::string& job) {
  const bool is_slurm = options.name == "slurm";
  const auto answer = ask(
      is_slurm ? std::vector<std::string>{"squeue", "--noheader", "--format=%T", "--jobs=" + job}
               : std::vector<std::string>{"qstat", job});
  if (*answer.status == 0) return !is_slurm || !first_word(answer.output).empty();
  // A job that is over is an error to both; so is a scheduler that can't be reached, and that must
  // not pass for the end of a job.
  for (const char* const message : {"Invalid job id", "Unknown Job", "has finished"})
    if (answer.errors.find(message) != std::string::npos) return false;
  throw Error(
      fmt::format("scheduler: cannot tell whether job {} is still there: {}", job, answer.errors));
}

}  // namespace kolo
