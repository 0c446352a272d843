#include <cmath>
#include <iostream>
#include <set>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/train/observe/format.h"
#include "run/launch/supervise.h"
#include "study/study_folder.h"

namespace kolo {

namespace {

// What is written to stdout meanwhile, by programs started too, is lost.
class SilentOutput {
 public:
  SilentOutput() : before_(::dup(STDOUT_FILENO)) {
    std::cout << std::flush;
    const FileDescriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!before_.is_open() || !nowhere.is_open() || ::dup2(nowhere.get(), STDOUT_FILENO) < 0)
      throw Error(system_error_text("cannot silence the output", errno));
  }
  SilentOutput(const SilentOutput&) = delete;
  SilentOutput& operator=(const SilentOutput&) = delete;
  ~SilentOutput() { ::dup2(before_.get(), STDOUT_FILENO); }

 private:
  FileDescriptor before_;
};

// What follows `kolo train`.
std::vector<std::string> train_arguments(const StudyRequest& request, const StudyFolder& folder,
                                         const Study& study, const StudyPoint& point) {
  std::vector<std::string> arguments{request.config.file.string()};
  if (request.config.name) arguments.insert(arguments.end(), {"--config", *request.config.name});
  for (const auto& setting : settings_of(request, study, point)) arguments.push_back(setting);
  const RunFolder run = folder.run(point);
  arguments.insert(arguments.end(), {"--output", run.path.string()});
  if (run.holds_checkpoint()) arguments.emplace_back("--resume");
  return arguments;
}

RankCommand train_command(const StudyRequest& request, const StudyFolder& folder,
                          const Study& study, const StudyPoint& point, bool oversubscribe) {
  RankCommand command{{request.program.string(), "train"}, {}};
  for (const auto& word : train_arguments(request, folder, study, point))
    command.argv.push_back(word);
  command.argv.insert(command.argv.end(), {"-n", std::to_string(point.ranks)});
  if (oversubscribe) command.argv.emplace_back("--oversubscribe");
  return command;
}

// The points of one run: several where what distinguishes them makes no difference.
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

JobEnd run(const RankCommand& command, bool quiet) {
  std::cout << std::flush;
  const StopPolicy as_it_is{.signal = 0};
  if (!quiet) return supervise(command, as_it_is);
  const SilentOutput silence;
  return supervise(command, as_it_is);
}

std::string result_line(const StudyResults& results) {
  const double accuracy = results.best_val_accuracy;
  return fmt::format("{} samples/s, {}", format_rate(results.samples_per_second),
                     std::isfinite(accuracy)
                         ? fmt::format("best validation accuracy {:.2f} %", 100 * accuracy)
                         : fmt::format("best validation loss {:.4g}", results.best_val_loss));
}

}  // namespace

bool run_points(const StudyRequest& request, const StudyFolder& folder, Study& study,
                const RunningOptions& options) {
  const auto points = runs_to_do(study);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const StudyPoint& point = points[i];
    const auto command = train_command(request, folder, study, point, options.oversubscribe);
    options.say(fmt::format("==> Run {} of {}: {}", i + 1, points.size(), describe(point)));
    const JobEnd end = run(command, options.quiet);
    folder.collect(study);
    if (end.status == exit_stopped || end.was_asked()) {
      folder.write(study);
      return false;
    }
    if (end.status != 0) {
      const auto problem = fmt::format("kolo train ended with status {}; what it said is in {}",
                                       end.status, folder.run(point).log().string());
      settle(study, point.folder, StudyPointState::failed, problem);
      options.say("==> " + problem);
    }
    folder.write(study);
    for (const StudyPoint& done : study.points) {
      if (done.folder != point.folder || done.state != StudyPointState::done) continue;
      options.say(fmt::format("==> {} rank{}: {}", done.ranks, done.ranks == 1 ? "" : "s",
                              result_line(done.results)));
      break;
    }
  }
  return true;
}

void submit_points(const StudyRequest& request, const StudyFolder& folder, Study& study,
                   const SchedulerOptions& scheduler, const RunningOptions& options) {
  for (const StudyPoint& point : runs_to_do(study)) {
    if (point.state == StudyPointState::submitted && has_job(scheduler, point.job)) {
      options.say(fmt::format("job {}: {} (not over yet)", point.job, describe(point)));
      continue;
    }
    std::filesystem::create_directories(folder.path / "runs");
    const std::filesystem::path name = folder.run(point).path.filename();
    const auto log = folder.path / "runs" / fmt::format("{}.log", name.string());
    auto arguments = train_arguments(request, folder, study, point);
    const auto job = submit(submit_command(scheduler, point, fmt::format("kolo-{}", name.string()),
                                           std::filesystem::absolute(log), arguments));
    settle(study, point.folder, StudyPointState::submitted, "", job);
    folder.write(study);
    options.say(fmt::format("job {}: {}", job, describe(point)));
  }
}

std::string describe_plan(const StudyRequest& request, const StudyFolder& folder,
                          const Study& study) {
  std::string text;
  for (const StudyPoint& point : runs_to_do(study)) {
    const auto command = train_command(request, folder, study, point, false);
    text += fmt::format("{}\n  kolo {}\n", describe(point),
                        join(std::span(command.argv).subspan(1), " "));
  }
  return text.empty() ? "every run is done\n" : text;
}

}  // namespace kolo
