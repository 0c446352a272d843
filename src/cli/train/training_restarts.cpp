#include "cli/train/training_restarts.h"

#include <csignal>
#include <iostream>

#include <fmt/format.h>

#include "cli/train/resume.h"
#include "cli/train/run_lock.h"
#include "kolo/observe/run_log.h"

namespace kolo {

namespace {

void go_on(LaunchRequest& request, RunLog& log) {
  remove_resume(request.command);
  request.command.insert(request.command.begin() + 2,
                         fmt::format("--resume={}", newest_checkpoint));  // kolo train --resume ...
  log.info("going on from the newest checkpoint");
}

// What the attempt before has left must not be taken for this one's.
void start_over(const RunFolder& folder, RunLog& log) {
  std::filesystem::remove(folder.history());
  if (std::filesystem::is_directory(folder.checkpoints()))
    std::filesystem::remove_all(folder.checkpoints());
  constexpr auto message = "there is no checkpoint yet: starting from the beginning";
  std::cerr << "kolo: " << message << std::endl;
  log.info("{}", message);
}

// Tells a failure that will come again from one that came from outside.
class Failures {
 public:
  // What lies in the folder is no attempt of this job.
  explicit Failures(RunFolder folder) : folder_(std::move(folder)) {
    note();
    has_begun_ = false;
    failed_after_.reset();
  }

  // Has the attempt that just failed begun to train?
  [[nodiscard]] bool has_begun() const { return has_begun_; }

  // What to say when it failed where the one before did.
  [[nodiscard]] std::string objection(int status) {
    const auto before = failed_after_;
    note();
    if (!is_of_its_own(status)) failed_after_.reset();
    if (!failed_after_ || failed_after_ != before) return {};
    return fmt::format(
        "it has failed twice after step {}, and would again: it is not restarted. Go on with other "
        "settings or from an earlier checkpoint (--resume best, --resume STEP)",
        *failed_after_);
  }

 private:
  // An error, or a crash: not what people, schedulers and the system do to processes.
  static bool is_of_its_own(int status) {
    switch (status - 128) {
      case SIGSEGV:
      case SIGBUS:
      case SIGFPE:
      case SIGILL:
      case SIGABRT:
        return true;
      default:
        return status == 1;
    }
  }

  // How far the last attempt came; nothing where it did not begin.
  void note() {
    const auto holder = RunLock::last_rank_0(folder_);
    has_begun_ = holder && holder->token != token_ && holder->progress;
    failed_after_ = has_begun_ ? holder->progress : std::nullopt;
    if (holder) token_ = holder->token;
  }

  RunFolder folder_;
  std::string token_;
  bool has_begun_ = false;
  std::optional<std::int64_t> failed_after_;
};

}  // namespace

RestartPolicy training_restarts(LaunchRequest& request, const PreparedRun& run,
                                const RunOptions& options, int restarts) {
  RestartPolicy policy{.restarts = restarts};
  policy.stop.message = "the ranks save a checkpoint and stop; a second time ends them at once";
  if (restarts == 0) {
    RunLock::require_free(run.folder);
    return policy;
  }
  const auto lock = std::make_shared<RunLock>(RunLock::of_launcher(run.folder, run.starts_anew()));
  if (lock->moved()) {
    std::cout << fmt::format("{} held an earlier run; it is now {}\n", run.folder.path.string(),
                             lock->moved()->string());
  }
  request.environment.emplace_back(RunLock::variable, lock->token());
  const auto failures = std::make_shared<Failures>(run.folder);
  policy.objection = [failures](int status) { return failures->objection(status); };
  policy.before_restart = [folder = run.folder, resumes = options.resume.has_value(), lock,
                           failures](LaunchRequest& attempt, const std::string& message) {
    RunLog log({.file = folder.log()});
    log.warn("{}", message);
    if (resumes && !failures->has_begun()) return;  // as the command says
    if (folder.holds_checkpoint())
      go_on(attempt, log);
    else
      start_over(folder, log);
  };
  return policy;
}

}  // namespace kolo
