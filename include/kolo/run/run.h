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

// A whole run, as `kolo train` does it: the folder with its checkpoints, history, log and event
// file, going on from a checkpoint, stopping on request.
namespace kolo {

struct DataReading;  // kolo/data/catalogue.h
struct Objective;    // kolo/train/objective.h

// User-supplied parts that replace those named in the configuration, the same on every rank. Parts
// that are left out are made as the configuration says.
struct RunParts {
  // Where model.name is looked up.
  ModelCatalogue models = built_in_models();
  std::function<Datasets(const RunConfig&, const DataReading&)> datasets = {};
  std::function<Objective(const RunConfig&)> objective = {};
  std::function<std::unique_ptr<FlatOptimizer>(const RunConfig&)> optimizer = {};
  // Are told on rank 0 only, after the run's own. They must outlive the run and not communicate.
  std::vector<Observer*> observers = {};
};

struct RunOptions {
  // Goes on from a checkpoint of the output folder: "newest", "best" or a step; or from one by its
  // own folder.
  std::optional<std::string> resume = {};
  bool allow_data_change = false;  // of what is resumed: samples may come in another order
  bool timeline = false;           // records one, timeline.json in the run's folder
  // Where rank 0 says how it goes. None: on stdout, with colours and a bar where that is a
  // terminal.
  std::ostream* console = nullptr;
  // Of a program that has one already. Otherwise the ranks are those that a launcher has started,
  // or this process alone.
  std::optional<Communicator> communicator = {};
  // Asked at every step, on every rank: whether to save a checkpoint and stop. None: when SIGINT,
  // SIGTERM or SIGUSR1 has come, of which a second one ends the process.
  std::function<bool()> stop_requested = {};
  // A time, in seconds since 1970, before which the run saves a checkpoint and stops as on request:
  // so early that twice the longest time from step to step is left and twice the longest that a
  // checkpoint was written (the first at 100 MB/s), and at least 10 seconds. None: it goes on.
  std::optional<double> stop_before = {};
  // Saves a checkpoint and stops as on request once so many epochs are done and others are left:
  // the learning rate still goes by all epochs of the configuration. None: it goes on.
  std::optional<std::int64_t> stop_after_epochs = {};
};

// Trains as the configuration says, on all ranks of the job. Call it on each, from the main thread;
// once, unless the program brings a communicator or is alone. It sets LibTorch's threads, and what
// freed memory the process keeps.
//
// The ranks first make everything that can be wrong, and agree on it: what fails on any of them
// ends all alike. Returns the exit status that is for main(): 0 done, also where there was nothing
// left to do; 75 stopped on request after a checkpoint; and where several ranks could not prepare,
// which rank 0 has then said on stderr, 2 for an InputError and 1 for others. A rank that is alone
// throws instead. Of several, one that fails later says so and ends the job.
[[nodiscard]] int run(const RunConfig& config, const RunParts& parts = {},
                      const RunOptions& options = {});
// The same, and what is wrong with the file on any rank ends all alike, too.
[[nodiscard]] int run(const ConfigSource& source, const RunParts& parts = {},
                      const RunOptions& options = {});

// For main(): does the program's work, and returns its exit status: the one that `body` returns, or
// after an exception, which is said on stderr, 2 for an InputError and 1 for others. SIGXFSZ is
// ignored from then on: what is written beyond a limit of files' sizes fails with an exception.
[[nodiscard]] int run_main(const std::function<int()>& body);
// The same. Standard streams that are closed are opened on /dev/null first. Where OpenBLAS has
// taken the processor for an older one, which makes it several times slower, or OpenMP has bound
// this thread, the program first starts again with variables that tell them better: `argv` is
// main()'s.
[[nodiscard]] int run_main(char** argv, const std::function<int()>& body);
// main() of a program that trains with parts of its own, as `kolo train` does otherwise:
//   PROGRAM CONFIG [-n RANKS] [--resume[=best|STEP|PATH]] [--allow-data-change] [--timeline]
//           [key.sub=value ...]
[[nodiscard]] int run_main(int argc, char** argv, const RunParts& parts);

}  // namespace kolo
