#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/base/enum_names.h"
#include "kolo/train/observe/history.h"

namespace kolo {

// Results of a run of a study. Means over its epochs where there are several; losses and accuracies
// are of all samples of all ranks, accuracies from 0 to 1.
struct StudyResults {
  double epochs = not_measured;
  double epoch_seconds = not_measured;  // of training, without validation
  double epoch_seconds_deviation = not_measured;
  double samples_per_second = not_measured;  // of all ranks together
  double samples_per_second_deviation = not_measured;
  double step_seconds = not_measured;
  double data_wait_seconds = not_measured;              // of a step, rank 0's
  double exposed_communication_seconds = not_measured;  // of a step, rank 0's, for gradients
  double peak_memory_bytes = not_measured;              // of the host's, rank 0's whole process
  double loss = not_measured;                           // of the last epoch, as are the next three
  double accuracy = not_measured;
  double val_loss = not_measured;
  double val_accuracy = not_measured;
  double best_loss = not_measured;  // of all epochs, as are the next three
  double best_accuracy = not_measured;
  double best_val_loss = not_measured;
  double best_val_accuracy = not_measured;
};

// pending: not started; submitted: a scheduler has it.
enum class StudyPointState : std::uint8_t { pending, submitted, done, failed };

constexpr auto enum_names(StudyPointState) {
  return std::to_array<EnumName<StudyPointState>>({{StudyPointState::pending, "pending"},
                                                   {StudyPointState::submitted, "submitted"},
                                                   {StudyPointState::done, "done"},
                                                   {StudyPointState::failed, "failed"}});
}

// One run of a study.
struct StudyPoint {
  int ranks = 1;
  int nodes = 1;
  std::int64_t batch_size = 0;  // a rank, or where ranks share samples all of them
  std::string batch_of = {};    // instead of a rank: "replica" (of several ranks), "virtual rank"
  // Ranks that share a sample along each of its axes, slowest first; empty: none do.
  std::vector<int> spatial = {};
  std::string lr_scaling;  // none | linear | sqrt
  double warmup_epochs = 0;
  StudyPointState state = StudyPointState::pending;
  std::string folder;   // its run, relative to the study's
  std::string job;      // what the scheduler calls it
  std::string problem;  // why it failed
  // Samples a second per rank, relative to the line's point with the fewest ranks: 1 is ideal.
  // not_measured without that point.
  double efficiency = not_measured;
  // Bytes of samples and activations that a rank keeps for backward, by formula, where ranks share
  // samples.
  double kept_bytes = not_measured;
  StudyResults results;
};

// "[2,1,1]"; "" where each rank has samples of its own.
[[nodiscard]] std::string cut_of(const StudyPoint& point);

// A scaling study: one configuration on several numbers of ranks. Written as study.json, with the
// structs' member names as keys; one thread at a time.
struct Study {
  std::string name;
  std::string configuration;  // the file, and its named configuration where there is one
  std::string scaling;        // weak: the batch of a rank is fixed | strong: the batch of all ranks
  // data: each rank has samples of its own | spatial: all ranks share each sample
  std::string parallel = "data";
  std::vector<std::string> settings;  // key.sub=value, of all its runs
  int threads = 0;  // of a rank in every run, where the study chose; 0: the configuration's
  int cores = 1;    // of the machine that ran it; more ranks share cores
  std::vector<StudyPoint> points;

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // Error: not what to_json() makes, naming the field.
  [[nodiscard]] static Study from_json(const nlohmann::ordered_json& document);

  // Whole or not at all.
  void write(const std::filesystem::path& path) const;
  // Error, naming the file.
  [[nodiscard]] static Study read(const std::filesystem::path& path);
};

// Fills in every point's efficiency, relative to the point measured with the fewest ranks of the
// same learning-rate scaling and warm-up.
void fill_in_efficiency(Study& study);

// Results from a run's history.
[[nodiscard]] StudyResults results_of(const History& history);

}  // namespace kolo
