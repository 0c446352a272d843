#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/base/enum_names.h"
#include "kolo/base/statistics.h"
#include "kolo/train/observe/history.h"

namespace kolo {

// pending: not started; running: started, stale if no process holds the sweep's folder; stopped: on
// request, it can go on; done; failed.
enum class TrialState : std::uint8_t { pending, running, stopped, done, failed };

constexpr auto enum_names(TrialState) {
  return std::to_array<EnumName<TrialState>>({{TrialState::pending, "pending"},
                                              {TrialState::running, "running"},
                                              {TrialState::stopped, "stopped"},
                                              {TrialState::done, "done"},
                                              {TrialState::failed, "failed"}});
}

// One trial of a sweep: a run of kolo train with values of its own for the swept keys.
struct Trial {
  int number = 1;                     // from 1, in the order of the plan
  std::vector<std::string> settings;  // "optimizer.lr=0.001": the swept keys, in their order
  std::string folder;                 // its run, relative to the sweep's
  TrialState state = TrialState::pending;
  int failures = 0;     // so many times it has failed
  std::string problem;  // why it failed last
  double seconds = 0;   // that its processes have taken, their starts among them
  // Epochs trained, and their values of the sweep's metric; epoch 0, before training, is none.
  std::int64_t epochs = 0;
  double best = not_measured, last = not_measured;
  std::int64_t best_epoch = 0;
};

// Trials of a configuration's values. Written as sweep.json, with the structs' member names
// as keys, and last_epochs() where there is a target; one thread at a time.
struct Sweep {
  std::string name;
  std::string configuration;            // the file, and its named configuration where there is one
  std::vector<std::string> space;       // key=VALUES of each swept key, as it was given
  std::vector<std::string> settings;    // key.sub=value, of all trials
  int random = 0;                       // so many trials are drawn; 0: a grid
  std::uint64_t seed = 1;               // of what is drawn
  int ranks = 1;                        // of a trial
  int threads = 0;                      // of a rank, where the sweep chose; 0: the configuration's
  std::string metric = "val_accuracy";  // val_accuracy | val_loss
  double target = not_measured;         // published value of the metric; not a number: none
  std::vector<Trial> trials;

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // Error: not what to_json() makes, naming the field.
  [[nodiscard]] static Sweep from_json(const nlohmann::ordered_json& document);

  // Whole or not at all.
  void write(const std::filesystem::path& path) const;
  // InputError, naming the file.
  [[nodiscard]] static Sweep read(const std::filesystem::path& path);
};

// "optimizer.lr" and "0.001" of "optimizer.lr=0.001".
[[nodiscard]] std::pair<std::string, std::string> key_and_value(std::string_view setting);
// "learning rate 0.001, batch size 32"
[[nodiscard]] std::string describe(const Trial& trial);
// The swept keys in words, as above; whole keys where two would be called alike.
[[nodiscard]] std::vector<std::string> names_in_words(const std::vector<std::string>& settings);

// Trials that differ in nothing but their seed, with their best values.
struct SeedGroup {
  std::vector<std::size_t> trials;                       // their places in the sweep
  double mean = not_measured, deviation = not_measured;  // of one value there is no deviation
};
[[nodiscard]] bool is_seed(std::string_view setting);
// In the order of their first trials; where the seed isn't swept one for each trial.
[[nodiscard]] std::vector<SeedGroup> groups_by_seed(const Sweep& sweep);

// Mean and standard deviation of the last epochs of all trials that are done; nothing where none
// is. Last, not best: the best epoch is chosen by the very data that it is measured with.
[[nodiscard]] std::optional<MeanDeviation> last_epochs(const Sweep& sweep);

// Compares by a metric ("val_accuracy" | "val_loss"); NaN is worse than any number.
[[nodiscard]] bool is_better(std::string_view metric, double one, double other);
// Indices of the sweep's trials, the best first; equals, and those without a value, in their order.
[[nodiscard]] std::vector<std::size_t> best_first(const Sweep& sweep);
// "91.24 %" or "0.3121"; "" where it is not a number.
[[nodiscard]] std::string format_metric(std::string_view metric, double value);

// Fills in epochs, best, last and best_epoch from what a run has recorded.
void note_results(Trial& trial, const History& history, std::string_view metric);

}  // namespace kolo
