#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/job_nodes.h"
#include "run/launch/launch_advice.h"
#include "run/launch/signals.h"
#include "run/launch/supervise.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

// Command line of this process, with the program's path as first word.
std::vector<std::string> own_command() {
  auto command = own_words();
  if (command.empty()) throw Error("cannot read this program's arguments from /proc/self/cmdline");
  command[0] = own_program();
  return command;
}

bool is_failure(const JobEnd& end) {
  return !end.was_asked() && end.status != 0 && end.status != exit_wrong_input &&
         end.status != exit_stopped;
}

// Text "the job ended with status 137 (Killed)".
std::string describe_end(const JobEnd& end) {
  if (end.hosts.has_not_started)
    return fmt::format("the ranks could not be started (status {})", end.status);
  const int signal = end.status - 128;
  return fmt::format("the job ended with status {}{}", end.status,
                     signal > 0 && signal < NSIG ? fmt::format(" ({})", ::strsignal(signal)) : "");
}

// Explains a job that failed without a word: the command that started it, the launcher's last
// hidden text, and the usual reasons that apply.
void explain_silence(const JobEnd& end, const LaunchRequest& request, const RankCommand& command) {
  const auto& launcher = command.argv[0];
  complain(
      fmt::format("{}, and neither {} nor a rank has said why; kolo doctor tries what ranks need. "
                  "It was started by: {}",
                  describe_end(end), launcher, join(command.argv, " ")));
  if (!end.last_words.empty())
    complain(fmt::format("the last that {} wrote: {}", launcher, end.last_words));
  if (command.processes > 0) return;
  constexpr std::chrono::seconds patience(6);
  const auto conditions = examine_conditions(request, command.starts_processes, patience);
  const auto reasons = usual_reasons(conditions);
  for (const auto& reason : reasons) complain("what may be the reason: " + reason);
  if (reasons.empty())
    complain(
        fmt::format("it is none of the usual reasons: {}names, slots and ulimit -f are as "
                    "they should be here",
                    conditions.are_here ? "/dev/shm, " : ""));
}

// Says what to look at where the launcher has started no ranks.
void explain_start(const JobEnd& end, const LaunchRequest& request) {
  const auto on_hosts = request.hosts.empty() ? "" : " on " + to_string(request.hosts);
  complain(
      fmt::format("{}{}: check the names of the hosts, that ssh reaches each without a "
                  "password, and that the program is there under the same path",
                  describe_end(end), on_hosts));
}

// Attempts of a job.
class Job {
  using Clock = std::chrono::steady_clock;

 public:
  Job(const LaunchRequest& request, const RestartPolicy& policy)
      : request_(request),
        policy_(policy),
        machine_(
            examine_machine(detect_launch_environment(), request.launcher, !request.hosts.empty())),
        nodes_(policy.restarts > 0 ? nodes_of_job(request, machine_) : std::vector<Host>()) {}

  // Returns the job's status, after as many restarts as the policy allows.
  int run() {
    LaunchRequest attempt = request_;
    for (int restart = 0;; ++restart) {
      attempt.environment.emplace_back("KOLO_RESTART", std::to_string(restart));
      std::cout << std::flush;
      const auto command = rank_command(attempt, machine_);
      const auto end = command.processes > 0
                           ? supervise_ranks(command, attempt, policy_.stop, signals_)
                           : supervise_launcher(command, policy_.stop, signals_);
      if (end.was_silent && !end.was_asked() && (is_failure(end) || end.status == exit_wrong_input))
        explain_silence(end, attempt, command);
      if (end.was_asked() && policy_.stop.signal == SIGTERM) return 128 + end.asked_by;
      // The ranks didn't listen yet.
      if (end.was_asked() && policy_.stop.signal == SIGUSR1 && end.status == 128 + SIGUSR1) {
        complain("stopped before the training began");
        return exit_stopped;
      }
      if (!is_failure(end)) return end.status;
      // A launcher's status tells nothing of ranks that it has not started.
      const int status = end.hosts.has_not_started ? exit_failed : end.status;
      if (policy_.restarts == 0) {
        if (end.hosts.has_not_started && !end.was_silent) explain_start(end, attempt);
        return status;
      }
      const auto refusal = prepare_restart(end, attempt);
      if (const auto signal = signals_.next()) return stopped_between(*signal);
      if (!refusal.empty()) {
        complain(fmt::format("{}; {}", describe_end(end), refusal));
        return status;
      }
    }
  }

 private:
  // Turns `attempt` into the next one. Returns a reason why there is none, or nothing.
  std::string prepare_restart(const JobEnd& end, LaunchRequest& attempt) {
    bool node_failed = false;
    if (nodes_.are_several())
      node_failed =
          nodes_.note_failure(end.hosts, find_silent_hosts(nodes_.candidates(), machine_));
    if (const auto& program = request_.command[0];
        program.find('/') != program.npos && ::access(program.c_str(), X_OK) != 0)
      return fmt::format("it is not restarted: {}", system_error_text(program, errno));
    const JobFailure failure{end.status, node_failed};
    if (auto objection = policy_.objection ? policy_.objection(failure) : std::string();
        !objection.empty())
      return objection;
    // Counts an hour's restarts: a run of weeks may fail often, but one that always fails must end.
    const auto now = Clock::now();
    std::erase_if(restarts_, [&](auto time) { return time <= now - std::chrono::hours(1); });
    const int count = narrow<int>(restarts_.size());
    if (count >= policy_.restarts)
      return fmt::format("it was restarted {} within an hour, and is not again",
                         counted(count, "time"));
    const auto next_ranks = ranks_of_next();
    if (next_ranks.ranks < 1) return describe_want_of_ranks();
    restarts_.push_back(now);
    attempt = request_;
    attempt.ranks = next_ranks.ranks;
    if (!next_ranks.hosts.empty()) attempt.hosts = next_ranks.hosts;
    const auto from = policy_.before_restart ? policy_.before_restart(attempt) : std::string();
    const auto message =
        fmt::format("{}; starting it again (restart {} of {}): {}{}", describe_end(end), count + 1,
                    policy_.restarts, describe(next_ranks), from.empty() ? "" : ", " + from);
    complain(message);
    if (policy_.note) policy_.note(message);
    return {};
  }

  [[nodiscard]] int least_ranks() const {
    return policy_.min_ranks > 0 ? policy_.min_ranks : request_.ranks;
  }

  [[nodiscard]] NextRanks ranks_of_next() const {
    if (!nodes_.are_several()) return {request_.ranks, {}};
    return nodes_.next_ranks(request_.ranks, least_ranks(),
                             [&](int ranks) { return !policy_.accepts || policy_.accepts(ranks); });
  }

  // Text "3 ranks instead of 4 on n1:2,n3:1, without n2 (does not answer)".
  [[nodiscard]] std::string describe(const NextRanks& next_ranks) const {
    auto text = counted(next_ranks.ranks, "rank");
    if (next_ranks.ranks != request_.ranks) text += fmt::format(" instead of {}", request_.ranks);
    if (!next_ranks.hosts.empty())
      text += fmt::format(" on {}, without {}", to_string(next_ranks.hosts),
                          nodes_.describe_left_out());
    return text;
  }

  [[nodiscard]] std::string describe_want_of_ranks() const {
    const auto left = nodes_.left();
    const int room = total_slots(left);
    return fmt::format(
        "it is not restarted: without {} there is room for {} on {}, but {}{}",
        nodes_.describe_left_out(), counted(room, "rank"),
        left.empty() ? "no node" : to_string(left),
        room < least_ranks()
            ? fmt::format("at least {} must be started", counted(least_ranks(), "rank"))
            : fmt::format("from {} up there is no number of ranks that it can go on with",
                          least_ranks()),
        room < least_ranks() && policy_.min_ranks > 0 ? " (--min-ranks)" : "");
  }

  // Ends the job on a signal while no rank runs that could save.
  [[nodiscard]] int stopped_between(int signal) const {
    complain(fmt::format("{}: stopped between two starts", describe_signal(signal)));
    return policy_.stop.signal == SIGUSR1 ? exit_stopped : 128 + signal;
  }

  const LaunchRequest& request_;
  const RestartPolicy& policy_;
  MachineFacts machine_;
  JobNodes nodes_;
  std::vector<Clock::time_point> restarts_;  // within the last hour
  // Catches signals between two attempts, too.
  SignalPipe signals_{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
};

}  // namespace

int run_ranks(const LaunchRequest& request, const RestartPolicy& policy) {
  LaunchRequest complete = request;
  if (complete.command.empty()) {
    complete.command = own_command();
    complete.end_together = true;
  }
  return Job(complete, policy).run();
}

}  // namespace kolo
