#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/train/observer.h"

// A whole run, as by `kolo train`: its folder with checkpoints, history, log and event file,
// resume, stops on request.
namespace kolo {

struct DataReading;  // kolo/data/catalogue.h
struct Objective;    // kolo/train/objective.h

// User-supplied parts that replace those named in the configuration, the same on every rank.
struct RunComponents {
  // Catalogue in which model.name is looked up.
  ModelCatalogue models = built_in_models();
  std::function<Datasets(const RunConfig&, const DataReading&)> datasets = {};
  std::function<Objective(const RunConfig&)> objective = {};
  std::function<std::unique_ptr<FlatOptimizer>(const RunConfig&)> optimizer = {};
  // Called on rank 0 only, after the run's own. They must outlive the run and not communicate.
  std::vector<Observer*> observers = {};
};

struct RunOptions {
  // Checkpoint to resume from: "newest", "best" or a step of the output folder, or the path of any
  // checkpoint's folder.
  std::optional<std::string> resume = {};
  bool allow_data_change = false;  // a resumed run may get samples in another order
  bool timeline = false;           // records timeline.json in the run's folder
  // Stream for rank 0's messages. None: stdout, with colours and a bar where that is a terminal.
  std::ostream* console = nullptr;
  // All ranks, where the program has them already. None: those that a launcher has started, or this
  // process alone.
  std::optional<Communicator> communicator = {};
  // Asked on every rank at every step; true saves a checkpoint and stops the run. None: SIGINT,
  // SIGTERM and SIGUSR1 stop it, and a second one ends the process.
  std::function<bool()> stop_requested = {};
  // Time, in seconds since 1970, before which the run saves a checkpoint and stops, leaving twice
  // the longest time of a step and of writing a checkpoint (the first at 100 MB/s), and at least 10
  // seconds.
  std::optional<double> stop_before = {};
  // Saves a checkpoint and stops after so many epochs; the learning rate goes by all epochs of the
  // configuration.
  std::optional<std::int64_t> stop_after_epochs = {};
};

// Trains as the configuration says. Call it on all ranks of the job, from the main thread; once,
// unless the program brings a communicator or is alone. Sets LibTorch's threads, and makes the
// process keep freed memory.
//
// Returns the exit status for main(): 0 done, also where nothing was left to do; 75 stopped on
// request after a checkpoint. A failure before the training ends all ranks with the same status, 2
// for an InputError and 1 for others, and rank 0 says it on stderr; a later one ends the job. A
// rank that is alone throws instead.
[[nodiscard]] int run(const RunConfig& config, const RunComponents& components = {},
                      const RunOptions& options = {});
// The same of a configuration that is read first.
[[nodiscard]] int run(const ConfigSource& source, const RunComponents& components = {},
                      const RunOptions& options = {});

// Body of main(): calls `body` and returns its status, or after an exception, which stderr shows, 2
// for an InputError and 1 for others. Ignores SIGXFSZ, so that writing beyond a limit of files'
// sizes throws.
[[nodiscard]] int run_main(const std::function<int()>& body);
// The same after begin_process() (run/begin_process.h), which may start the program again: `argv`
// is main()'s.
[[nodiscard]] int run_main(char** argv, const std::function<int()>& body);

}  // namespace kolo
