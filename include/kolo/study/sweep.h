#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/config/run_config.h"
#include "kolo/run/run.h"
#include "kolo/train/observe/sweep.h"

// `kolo sweep`: the trials over keys of a configuration, the processors that they run on, and
// running them.
namespace kolo {

// One swept word of the command line: "optimizer.lr=0.1,0.01".
struct SweptKey {
  enum class Kind : std::uint8_t { list, uniform, logarithmic };

  std::string text;  // as it was given
  std::vector<std::string>
      keys;  // several vary together: "optimizer.name,optimizer.lr=sgd:0.1,..."
  Kind kind = Kind::list;
  std::vector<std::vector<std::string>> values;  // of a list: for each value one of each key
  double low = 0, high = 0;                      // of a range
  bool is_whole = false;                         // both ends of the range are whole numbers
};

// The words key=value of a command line.
struct SweepSpace {
  std::vector<SweptKey> keys;         // what varies, in the order of the words
  std::vector<std::string> settings;  // what has one value, for all trials
};

// key=a,b,c is a list (commas within [], {} and quotes are not between values), key=1..100 a
// uniform range and key=log:1e-4..1e-1 a logarithmic one, of whole numbers where both ends are;
// k1,k2=a:b,c:d are keys that vary together; anything else has one value. InputError: an empty
// value, ends that are no numbers, in the wrong order or (log) not above 0, a key that is given
// twice, output_dir, or nothing that varies.
[[nodiscard]] SweepSpace parse_sweep_space(const std::vector<std::string>& words);

// The settings of each trial, a word a key: all combinations, the last key varying fastest.
// InputError: a range, whose values can't be listed; or more than a million trials.
[[nodiscard]] std::vector<std::vector<std::string>> grid_of(const SweepSpace& space);

// Draws `count` different trials. The same space and seed give the same; a larger count adds to the
// first ones. Numbers have four significant digits. InputError: the space has too few.
[[nodiscard]] std::vector<std::vector<std::string>> random_trials(const SweepSpace& space,
                                                                  std::uint64_t seed, int count);

// Place of a trial: a part of the machine or allocation that it has to itself.
struct TrialSite {
  std::vector<int> cpus = {};  // of this machine; empty: not bound
  int cores = 0;  // its share of a node's; 0: unknown, a trial's launcher sees its hosts
  std::vector<std::pair<std::string, std::string>> environment = {};  // more variables
  std::vector<std::string> arguments = {};                            // more of kolo train
};

struct SiteOptions {
  int ranks = 1;    // of a trial
  int at_once = 0;  // trials; 0: as many as there are cores for, at least one
  bool oversubscribe = false;
  std::vector<std::string> gpus = {};  // of this machine, as CUDA_VISIBLE_DEVICES names them;
                                       // trials that compute on some have a GPU for each rank
};

// Places of equal size. On this machine each has cores of its own (`cores`: CPUs by core); on the
// hosts of a PBS job hosts of their own; in a Slurm job srun gives each step its own. InputError:
// more trials at once than that has cores, hosts or GPUs for, unless oversubscribe.
[[nodiscard]] std::vector<TrialSite> trial_sites(const MachineFacts& machine,
                                                 const std::vector<std::vector<int>>& cores,
                                                 const SiteOptions& options);

struct SweepRequest {
  // Its overrides are the words of the space.
  ConfigSource config;
  int random = 0;  // trials that are drawn; 0: all of a grid
  SiteOptions sites = {};
  std::optional<double> target = std::nullopt;  // see Sweep::target
  std::string metric;            // val_accuracy | val_loss; empty: accuracy, where there is one
  std::filesystem::path output;  // the sweep's folder; empty: output_dir with -sweep
  std::filesystem::path program = {};  // program that trains; empty: this one
  std::string program_name = "kolo";   // as users type it
  RunComponents components = {};       // of the program
  // Gets lines about the progress, for people.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

struct FinishedSweep {
  Sweep sweep;
  std::filesystem::path folder;
  bool was_stopped = false;  // by a signal, or a trial was; another call resumes
};

// Runs the remaining trials, several side by side, and writes sweep.json after each change, then
// report.html. All checks are made before the first trial: InputError. A trial that fails is noted
// and does not stop the others; the next call tries it once more.
//
// SIGINT, SIGTERM, SIGHUP and SIGUSR1 ask all trials to save a checkpoint and stop; a second one
// ends them at once. One thread; it must be the only one that starts processes meanwhile.
[[nodiscard]] FinishedSweep run_sweep(SweepRequest request);

// Lists the remaining trials with their commands, for people. Makes the same checks, and runs
// nothing.
[[nodiscard]] std::string describe_sweep(SweepRequest request);

// The words after `kolo train` that train a trial, as a user types them.
[[nodiscard]] std::vector<std::string> train_words(const SweepRequest& request, const Sweep& sweep,
                                                   const Trial& trial);

}  // namespace kolo
