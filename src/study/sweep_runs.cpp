#include <algorithm>
#include <csignal>
#include <deque>
#include <fstream>
#include <list>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "run/launch/child.h"
#include "run/launch/signals.h"
#include "study/study_folder.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr int most_failures = 2;  // a failed trial is tried once more

bool starts_with_srun(const TrialSetting& setting) {
  return setting.machine.launcher == Launcher::srun && setting.request.sites.ranks == 1;
}

// A trial of one rank needs no launcher, unless it is to run on another node of a Slurm job.
RankCommand command_of(const TrialSetting& setting, const SweepFolder& folder, const Sweep& sweep,
                       const Trial& trial, const TrialSite& place) {
  RankCommand command{{setting.request.program.string()}, {}};
  for (const auto& word : trial_words(setting, folder, sweep, trial, place))
    command.argv.push_back(word);
  if (starts_with_srun(setting))
    command = rank_command({.ranks = 1,
                            .command = command.argv,
                            .threads = std::max(1, sweep.threads),
                            .end_together = true},
                           setting.machine);
  command.environment.insert(command.environment.end(), place.environment.begin(),
                             place.environment.end());
  command.environment.emplace_back("KOLO_TERMINAL", "0");  // it prints to a file
  return command;
}

FileDescriptor open_output(const fs::path& path) {
  fs::create_directories(path.parent_path());
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file.is_open())
    throw Error(system_error_text(fmt::format("cannot write {}", path.string()), errno));
  return file;
}

// Last line of the trial's output, preferring kolo's own.
std::string last_words(const fs::path& output) {
  constexpr std::streamoff most = 8192;
  std::ifstream file(output, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  file.seekg(std::max<std::streamoff>(0, size - most));
  std::string last, of_kolo;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    last = line;
    if (line.starts_with("kolo: ")) of_kolo = line.substr(6);
  }
  auto words = of_kolo.empty() ? last : of_kolo;
  constexpr std::size_t longest = 400;
  if (words.size() > longest) words = words.substr(0, longest) + "...";
  return words;
}

// Estimate from the seconds that an epoch has taken so far; 0: unknown, or nothing is left.
double seconds_left(const TrialSetting& setting, const Sweep& sweep) {
  double left = 0, seconds = 0, measured = 0;
  for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
    const auto& trial = sweep.trials[i];
    const bool is_over = trial.state == TrialState::done || trial.state == TrialState::failed;
    const auto trained = static_cast<double>(trial.epochs);
    if (!is_over) left += static_cast<double>(setting.epochs[i]) - trained;
    if (trial.seconds <= 0 || trial.state == TrialState::running) continue;
    seconds += trial.seconds;
    measured += trained;
  }
  if (measured <= 0 || left <= 0) return 0;
  return left * seconds / measured / static_cast<double>(setting.sites.size());
}

std::string describe_result(const Sweep& sweep, const Trial& trial) {
  if (trial.state == TrialState::failed) return fmt::format("failed with {}", trial.problem);
  const auto epochs = counted(trial.epochs, "epoch");
  if (trial.state == TrialState::stopped) return fmt::format("stopped after {}", epochs);
  const auto value = format_metric(sweep.metric, trial.best);
  if (value.empty()) return fmt::format("no {} in {}", sweep.metric, epochs);
  return fmt::format("{} {} in epoch {} of {}, {}", sweep.metric, value, trial.best_epoch,
                     trial.epochs, format_duration(trial.seconds));
}

// For people, when a trial has ended: "trial 3 (lr 0.01): val_accuracy 91.24 % in epoch 4 of 5,
// 12.3 s; 5 of 16 over, best trial 2 with 92.01 %, 1 min 20 s left".
std::string describe_end(const TrialSetting& setting, const Sweep& sweep, const Trial& trial) {
  const auto over = std::ranges::count_if(sweep.trials, [](const Trial& each) {
    return each.state == TrialState::done || each.state == TrialState::failed;
  });
  auto text = fmt::format("trial {} ({}): {}; {} of {} over", trial.number, describe(trial),
                          describe_result(sweep, trial), over, sweep.trials.size());
  const auto& best = sweep.trials[best_first(sweep).front()];
  if (const auto value = format_metric(sweep.metric, best.best); !value.empty())
    text += fmt::format(", best trial {} with {}", best.number, value);
  if (const double left = seconds_left(setting, sweep); left > 0)
    text += fmt::format(", {} left", format_duration(left));
  return text;
}

// Runs trials side by side: as soon as one ends, the next one starts in its place.
class TrialRunner {
 public:
  TrialRunner(const TrialSetting& setting, const SweepFolder& folder, Sweep& sweep)
      : setting_(setting), folder_(folder), sweep_(sweep) {
    for (std::size_t place = 0; place < setting.sites.size(); ++place) free_.insert(place);
    for (std::size_t i = 0; i < sweep.trials.size(); ++i)
      if (is_to_do(sweep.trials[i])) queue_.push_back(i);
    // The longest first, so that none is left alone at the end.
    std::ranges::stable_sort(queue_, std::greater(),
                             [&](std::size_t trial) { return setting.epochs[trial]; });
  }

  bool run() {
    start_all();
    write();
    while (!running_.empty()) {
      wait();
      const auto ended = take_ended();
      if (ended.empty()) continue;
      if (!is_asked_) start_all();  // before anything that takes time
      write();
      for (const auto trial : ended)
        setting_.request.say(describe_end(setting_, sweep_, sweep_.trials[trial]));
    }
    return is_asked_ || has_stopped_;
  }

 private:
  struct Running {
    std::size_t trial, place;
    Child child;
    Stopwatch watch = {};
  };

  void start_all() {
    while (!free_.empty() && !queue_.empty()) {
      start(queue_.front());
      queue_.pop_front();
    }
  }

  void start(std::size_t number) {
    auto& trial = sweep_.trials[number];
    const auto place = *free_.begin();
    const auto& where = setting_.sites[place];
    const auto command = command_of(setting_, folder_, sweep_, trial, where);
    trial.state = TrialState::running;
    const auto output = open_output(folder_.output(trial));
    running_.push_back({number, place,
                        Child(command, {.output = &output,
                                        .errors = &output,
                                        .ignored = starts_with_srun(setting_) ? SIGUSR1 : 0,
                                        .cpus = where.cpus})});
    free_.erase(place);
  }

  // Waits until a child ends or a signal comes.
  void wait() {
    constexpr int between_requests_ms = 200;
    const bool repeats = is_asked_ && starts_with_srun(setting_);  // srun may not have listened
    pollfd ready{signals_.descriptor(), POLLIN, 0};
    if (::poll(&ready, 1, repeats ? between_requests_ms : -1) == 0) signal_all(SIGUSR1);
    while (const auto signal = signals_.next()) {
      if (*signal == SIGCHLD) continue;
      if (!is_asked_)
        setting_.request.say(fmt::format("{}: the trials save and stop", describe_signal(*signal)));
      const bool asks_srun = starts_with_srun(setting_) && !is_asked_;
      signal_all(asks_srun ? SIGUSR1 : SIGTERM);
      is_asked_ = true;
    }
  }

  void signal_all(int signal) const {
    for (const auto& running : running_) running.child.signal(signal);
  }

  std::vector<std::size_t> take_ended() {
    std::vector<std::size_t> ended;
    std::erase_if(running_, [&](Running& running) {
      const auto status = running.child.ended();
      if (!status) return false;
      sweep_.trials[running.trial].seconds += running.watch.seconds();
      note_end(running.trial, *status);
      ended.push_back(running.trial);
      free_.insert(running.place);
      return true;
    });
    return ended;
  }

  void note_end(std::size_t number, int status) {
    auto& trial = sweep_.trials[number];
    try {
      folder_.collect(trial, sweep_.metric);
    } catch (const Error& error) {
      return note_failure(trial, error.what());
    }
    if (status == 0) {
      trial.state = TrialState::done;
      trial.problem.clear();
    } else if (status == exit_stopped || is_asked_) {
      trial.state = TrialState::stopped;
      has_stopped_ = true;
    } else {
      note_failure(trial, fmt::format("status {}: {}", status, last_words(folder_.output(trial))));
    }
  }

  static void note_failure(Trial& trial, const std::string& problem) {
    trial.state = TrialState::failed;
    ++trial.failures;
    trial.problem = problem;
  }

  void write() const { sweep_.write(folder_.file()); }

  const TrialSetting& setting_;
  const SweepFolder& folder_;
  Sweep& sweep_;
  // Made before the first child, whose end is one of the signals.
  SignalPipe signals_{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
  std::deque<std::size_t> queue_;  // trials
  std::set<std::size_t> free_;     // places
  std::list<Running> running_;
  bool has_stopped_ = false;  // a trial, in this call
  bool is_asked_ = false;
};

}  // namespace

bool is_to_do(const Trial& trial) {
  if (trial.state == TrialState::failed) return trial.failures < most_failures;
  return trial.state != TrialState::done;
}

std::vector<std::string> trial_words(const TrialSetting& setting, const SweepFolder& folder,
                                     const Sweep& sweep, const Trial& trial,
                                     const TrialSite& place) {
  const auto& request = setting.request;
  auto words = train_words(request, sweep, trial);
  if (sweep.threads > 0) words.push_back(fmt::format("device.intra_threads={}", sweep.threads));
  const auto run = folder.run(trial);
  words.insert(words.end(), {"--output", run.path.string()});
  words.insert(words.end(), place.arguments.begin(), place.arguments.end());
  if (request.sites.oversubscribe) words.emplace_back("--oversubscribe");
  if (run.holds_checkpoint()) words.emplace_back("--resume");
  words.insert(words.begin(), "train");
  return words;
}

bool run_trials(const TrialSetting& setting, const SweepFolder& folder, Sweep& sweep) {
  return TrialRunner(setting, folder, sweep).run();
}

}  // namespace kolo
