#include "run/run_training.h"

#include <fmt/format.h>

#include "kolo/run/launch_ranks.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/run_log.h"
#include "run/launch/launcher_output.h"
#include "run/pipeline_part.h"
#include "run/run_folder.h"
#include "run/run_lock.h"
#include "run/work_part.h"

namespace kolo {

namespace {

using ChangeCommand = std::function<void(std::vector<std::string>&)>;

// Makes the next attempt resume. Returns words on its checkpoint.
std::string go_on(LaunchRequest& request, const RunFolder& folder,
                  const ChangeCommand& resume_newest) {
  request.environment.emplace_back(command_variable, as_typed(request.command));
  resume_newest(request.command);
  const auto all = folder.checkpoint_store().list();
  return all.empty() ? "going on from the newest checkpoint"
                     : fmt::format("going on at step {}", all.front().step);
}

// Starts the same command again, without the records of the attempt before.
std::string start_over(const RunFolder& folder, bool saves) {
  folder.keep_records_of_attempt();
  return fmt::format(
      "there {}: starting from the beginning",
      saves ? "is no checkpoint yet" : "are no checkpoints, as checkpoint.every_epochs is 0");
}

// Tells whether so many ranks can share the batch, samples and layers.
bool can_go_on(const PreparedRun& run, int ranks) {
  try {
    const auto replicas = replicas_of(run.config, ranks);
    (void)batch_size_of(run.config.training, replicas);
    require_sharing(run.config, run.datasets, *run.network, ranks);
    require_pipeline(run.config, *run.network, ranks);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// Reason why the folder allows no restart: it was taken away, or all checkpoints are damaged.
// Empty: it allows one.
std::string objection_of_folder(const RunFolder& folder, const RunLock& lock, bool goes_on_there) {
  if (!lock.is_held())
    return fmt::format("its folder {} was removed, renamed or taken over: it is not restarted",
                       folder.path.string());
  if (!folder.holds_step_folder()) {
    if (!goes_on_there) return {};
    return fmt::format("the checkpoints that it went on from are gone from {}: it is not restarted",
                       folder.checkpoints().string());
  }
  std::string problems;
  const auto note = [&](const std::string& problem) { problems += "\n  " + problem; };
  if (folder.holds_checkpoint(note)) return {};
  return fmt::format(
      "no checkpoint in {} can be used: it is not restarted, and they stay as they are. Without "
      "--resume the run begins anew, and its folder is moved aside{}",
      folder.checkpoints().string(), problems);
}

// Tells a failure that will come again from one that came from outside.
class Failures {
 public:
  // Forgets an earlier run in the folder.
  explicit Failures(RunFolder folder) : folder_(std::move(folder)) {
    note();
    has_begun_ = false;
    failed_after_.reset();
  }

  // Tells whether any attempt has begun to train.
  [[nodiscard]] bool has_begun() const { return has_begun_; }

  // Reason for no restart where an attempt failed after the same step as the one before.
  [[nodiscard]] std::string objection(const JobFailure& failure) {
    const auto before = failed_after_;
    note();
    if (failure.node_failed || !is_of_its_own(failure.status)) failed_after_.reset();
    if (!failed_after_ || failed_after_ != before) return {};
    return fmt::format(
        "it has failed twice after step {}, and would again: it is not restarted. Go on with other "
        "settings or from an earlier checkpoint (--resume best, --resume STEP)",
        *failed_after_);
  }

 private:
  // True for an error or a crash, not for signals of people, schedulers and the system.
  static bool is_of_its_own(int status) { return status == exit_failed || is_crash(status - 128); }

  // Notes how far the last attempt came; nothing if it did not begin.
  void note() {
    const auto holder = RunLock::last_rank_0(folder_);
    const bool has_begun = holder && holder->token != token_ && holder->progress;
    failed_after_ = has_begun ? holder->progress : std::nullopt;
    has_begun_ = has_begun_ || has_begun;
    if (holder) token_ = holder->token;
  }

  RunFolder folder_;
  std::string token_;
  bool has_begun_ = false;
  std::optional<std::int64_t> failed_after_;
};

}  // namespace

RestartPolicy training_restarts(LaunchRequest& request, const PreparedRun& run,
                                const RunOptions& options, RestartPolicy policy,
                                const ChangeCommand& resume_newest) {
  const bool saves = run.config.checkpoint.saves();
  policy.stop.message = fmt::format("the ranks {}; a second time ends them at once",
                                    saves ? "save a checkpoint and stop" : "stop");
  const auto lock = std::make_shared<RunLock>(RunLock::of_launcher(run.folder, run.starts_anew()));
  console_of(options) << lock->describe_move();
  if (!saves && policy.restarts > 0) {
    console_of(options) << "warning: checkpoint.every_epochs is 0: if a rank fails, the run starts "
                           "again from the beginning\n";
  }
  request.environment.emplace_back(RunLock::variable, lock->token());
  if (request.main) {
    request.main = [lock, main = request.main](const std::vector<std::string>& words) {
      lock->leave_to_launcher();
      return main(words);
    };
  }
  const auto failures = std::make_shared<Failures>(run.folder);
  const bool resumes = options.resume.has_value(), goes_on_there = run.goes_on_there();
  policy.objection = [folder = run.folder, goes_on_there, lock,
                      failures](const JobFailure& failure) {
    const auto objection = failures->objection(failure);
    return objection.empty() ? objection_of_folder(folder, *lock, goes_on_there) : objection;
  };
  policy.accepts = [&run](int ranks) { return can_go_on(run, ranks); };
  policy.before_restart = [folder = run.folder, resumes, saves, lock, failures,
                           resume_newest](LaunchRequest& attempt) -> std::string {
    if (resumes && !failures->has_begun()) return {};  // as the command says
    return folder.holds_step_folder() ? go_on(attempt, folder, resume_newest)
                                      : start_over(folder, saves);
  };
  policy.note = [folder = run.folder](const std::string& message) {
    RunLog({.file = folder.log()}).warn("{}", message);
  };
  return policy;
}

}  // namespace kolo
