#include <chrono>
#include <cmath>
#include <iostream>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/study/scale_study.h"
#include "kolo/train/observe/format.h"
#include "run/launch/child.h"
#include "run/launch/supervise.h"
#include "study/study_folder.h"

namespace kolo {

namespace {

// Arguments of `kolo train`.
std::vector<std::string> train_arguments(const ScaleRequest& request, const StudyFolder& folder,
                                         const Study& study, const StudyPoint& point) {
  std::vector<std::string> arguments{request.config.file.string()};
  if (request.config.name) arguments.insert(arguments.end(), {"--config", *request.config.name});
  for (const auto& setting : settings_of(request, study, point)) arguments.push_back(setting);
  const RunFolder run = folder.run(point);
  arguments.insert(arguments.end(), {"--output", run.path.string()});
  if (run.holds_checkpoint()) arguments.emplace_back("--resume");
  return arguments;
}

RankCommand train_command(const ScaleRequest& request, const StudyFolder& folder,
                          const Study& study, const StudyPoint& point, bool oversubscribe) {
  RankCommand command{{request.program.string(), "train"}, {}};
  for (const auto& word : train_arguments(request, folder, study, point))
    command.argv.push_back(word);
  command.argv.insert(command.argv.end(), {"-n", std::to_string(point.ranks)});
  if (oversubscribe) command.argv.emplace_back("--oversubscribe");
  return command;
}

// Records the state of a run in all its points, which are several where they train alike.
void settle(Study& study, const std::string& folder, StudyPointState state,
            const std::string& problem, const std::string& job = "") {
  for (StudyPoint& point : study.points) {
    if (point.folder != folder) continue;
    point.state = state;
    point.problem = problem;
    point.job = job;
  }
}

// The first point of every run that is not done.
std::vector<StudyPoint> runs_to_do(const Study& study) {
  std::set<std::string> seen;
  std::vector<StudyPoint> points;
  for (const StudyPoint& point : study.points) {
    if (point.state != StudyPointState::done && seen.insert(point.folder).second)
      points.push_back(point);
  }
  return points;
}

std::string result_line(const StudyResults& results) {
  const double accuracy = results.best_val_accuracy;
  return fmt::format("{} samples/s, {}", format_rate(results.samples_per_second),
                     std::isfinite(accuracy)
                         ? fmt::format("best validation accuracy {:.2f} %", 100 * accuracy)
                         : fmt::format("best validation loss {:.4g}", results.best_val_loss));
}

}  // namespace

bool run_points(const ScaleRequest& request, const StudyFolder& folder, Study& study) {
  const auto points = runs_to_do(study);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const StudyPoint& point = points[i];
    const auto command = train_command(request, folder, study, point, request.oversubscribe);
    request.say(fmt::format("==> Run {} of {}: {}", i + 1, points.size(), describe(point)));
    std::cout << std::flush;
    SignalPipe signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1});
    const JobEnd end = supervise_launcher(command, {.signal = 0}, signals);
    folder.collect(study);
    if (end.status == exit_stopped || end.was_asked()) {
      folder.write(study);
      return false;
    }
    if (end.status != 0) {
      auto problem = fmt::format("kolo train ended with status {}", end.status);
      // A run that was refused has no log; what it said stands above.
      const auto log = folder.run(point).log();
      std::error_code none;
      if (std::filesystem::exists(log, none))
        problem += fmt::format("; what it said is in {}", log.string());
      settle(study, point.folder, StudyPointState::failed, problem);
      request.say("==> " + problem);
    }
    folder.write(study);
    for (const StudyPoint& done : study.points) {
      if (done.folder != point.folder || done.state != StudyPointState::done) continue;
      request.say(
          fmt::format("==> {}: {}", counted(done.ranks, "rank"), result_line(done.results)));
      break;
    }
  }
  return true;
}

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds longest_answer{120};  // a busy scheduler takes long

std::string submitter(const SchedulerOptions& options) {
  return options.name == "slurm" ? "sbatch" : "qsub";
}

// kolo's script: installed beside the program, in the sources that it was built from, or here.
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

ProbeResult ask(const std::vector<std::string>& command) {
  const auto answer = probe({.argv = command}, longest_answer);
  if (answer.status) return answer;
  throw Error(fmt::format("scheduler: {} did not answer within {} s", join(command, " "),
                          longest_answer.count()));
}

// The first word of the text, without Slurm's ";cluster".
std::string first_word(const std::string& text) {
  std::string word;
  std::istringstream(text) >> word;
  return word.substr(0, word.find(';'));
}

// Submits a run and returns the job's name; `arguments`: those of `kolo train`. Error, with the
// scheduler's message.
std::string submit(const ScaleRequest& request, const StudyPoint& point,
                   const std::string& job_name, const fs::path& log,
                   const std::vector<std::string>& arguments) {
  const auto& options = request.scheduler;
  std::vector<std::string> command{submitter(options)};
  if (request.program_name != "kolo") {  // job scripts find kolo
    const auto program = fmt::format("KOLO={}", request.program.string());
    if (options.name == "slurm")
      command.push_back("--export=ALL," + program);
    else
      command.insert(command.end(), {"-v", program});
  }
  const int on_a_node = divide_up(point.ranks, point.nodes);
  if (options.name == "slurm") {
    command.insert(command.end(),
                   {"--parsable", fmt::format("--job-name={}", job_name),
                    fmt::format("--nodes={}", point.nodes), fmt::format("--ntasks={}", point.ranks),
                    fmt::format("--output={}", log.string())});
  } else {
    command.insert(command.end(), {"-N", job_name, "-j", "oe", "-o", log.string(), "-l",
                                   fmt::format("select={}:mpiprocs={}", point.nodes, on_a_node)});
  }
  std::istringstream more(options.options);
  for (std::string word; more >> word;) command.push_back(word);
  if (options.name == "pbs")
    command.emplace_back("--");  // a command with arguments instead of a script
  command.push_back(options.script.string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto answer = ask(command);
  const auto job = first_word(answer.output);
  if (*answer.status == 0 && !job.empty()) return job;
  throw Error(fmt::format("scheduler: {} ended with status {}: {}{}", command[0], *answer.status,
                          answer.errors, answer.output));
}

// Tells whether the scheduler still has the job, waiting or running. Error: it can't be asked.
bool has_job(const SchedulerOptions& options, const std::string& job) {
  const bool is_slurm = options.name == "slurm";
  const auto answer = ask(
      is_slurm ? std::vector<std::string>{"squeue", "--noheader", "--format=%T", "--jobs=" + job}
               : std::vector<std::string>{"qstat", job});
  if (*answer.status == 0) return !is_slurm || !first_word(answer.output).empty();
  // Both commands fail for a job that is over, and for a scheduler that can't be reached; the
  // second must not pass for the end of a job.
  for (const char* const message : {"Invalid job id", "Unknown Job", "has finished"})
    if (answer.errors.find(message) != std::string::npos) return false;
  throw Error(
      fmt::format("scheduler: cannot tell whether job {} is still there: {}", job, answer.errors));
}

}  // namespace

SchedulerOptions checked(SchedulerOptions options) {
  if (options.name != "slurm" && options.name != "pbs")
    throw InputError(fmt::format("--submit {}: the schedulers are slurm and pbs", options.name));
  if (find_in_path(submitter(options)).empty())
    throw InputError(
        fmt::format("--submit {}: there is no {} in PATH; submit from a machine that "
                    "has it, or leave --submit out to run here",
                    options.name, submitter(options)));
  if (options.script.empty()) options.script = own_script(options.name);
  if (!fs::is_regular_file(options.script))
    throw InputError(
        fmt::format("--job-script {}: there is no such file", options.script.string()));
  options.script = fs::absolute(options.script);
  return options;
}

void submit_points(const ScaleRequest& request, const StudyFolder& folder, Study& study) {
  const auto& scheduler = request.scheduler;
  for (const StudyPoint& point : runs_to_do(study)) {
    if (point.state == StudyPointState::submitted && has_job(scheduler, point.job)) {
      request.say(fmt::format("job {}: {} (not over yet)", point.job, describe(point)));
      continue;
    }
    std::filesystem::create_directories(folder.path / "runs");
    const std::filesystem::path name = folder.run(point).path.filename();
    const auto log = folder.path / "runs" / fmt::format("{}.log", name.string());
    const auto job = submit(request, point, fmt::format("kolo-{}", name.string()),
                            fs::absolute(log), train_arguments(request, folder, study, point));
    settle(study, point.folder, StudyPointState::submitted, "", job);
    folder.write(study);
    request.say(fmt::format("job {}: {}", job, describe(point)));
  }
}

std::string describe_plan(const ScaleRequest& request, const StudyFolder& folder,
                          const Study& study) {
  std::string text;
  for (const StudyPoint& point : runs_to_do(study)) {
    const auto command = train_command(request, folder, study, point, false);
    text += fmt::format("{}\n  {} {}\n", describe(point), request.program_name,
                        join(std::span(command.argv).subspan(1), " "));
  }
  return text.empty() ? "every run is done\n" : text;
}

}  // namespace kolo
