#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

namespace kolo {

// A value that was not measured; null in the file.
inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

// One pass over the training data. Losses and accuracies are means over all samples of all ranks;
// accuracies from 0 to 1.
struct EpochRecord {
  std::int64_t epoch = 0;  // 0: before training
  std::int64_t step = 0;   // optimizer steps done at its end
  double loss = not_measured;
  double accuracy = not_measured;
  double val_loss = not_measured;
  double val_accuracy = not_measured;
  double top_accuracy = not_measured;  // targets among the five largest outputs
  double val_top_accuracy = not_measured;
  double lr = not_measured;
  double seconds = not_measured;
  double samples_per_second = not_measured;  // of all ranks together
  double data_wait_seconds = not_measured;   // how long the training loop waited for batches
  // Waiting for the gradients of other ranks that backward did not hide.
  double exposed_communication_seconds = not_measured;
  double time = not_measured;     // at its end, in seconds since 1970
  double elapsed = not_measured;  // at its end, in seconds of training (TrainState::seconds)
};

// One optimizer step, or the mean of a few.
struct StepRecord {
  std::int64_t step = 0;
  double loss = not_measured;
  double accuracy = not_measured;
  double lr = not_measured;
  double samples_per_second = not_measured;
  double time = not_measured;     // at its end, in seconds since 1970
  double elapsed = not_measured;  // at its end, in seconds of training (TrainState::seconds)
};

// A checkpoint that was saved.
struct CheckpointRecord {
  std::int64_t step = 0;
  double stall_seconds = not_measured;   // that training stood still for it, of which
  double waited_seconds = not_measured;  // for the one before to be written
  double seconds = not_measured;         // that writing it took
  double time = not_measured;            // when it was there, in seconds since 1970
};

// The epoch that a run is in, so that its steps can be placed among the epochs.
struct EpochUnderWay {
  std::int64_t epoch = 0;      // that its end will have
  std::int64_t last_step = 0;  // of it
};

// The record of a run, written as history.json:
//   {"n_ranks": 2, "epochs": [EpochRecord ...], "steps": [StepRecord ...],
//    "checkpoints": [CheckpointRecord ...], "epoch_under_way": EpochUnderWay, "summary": {...}}
// with the structs' member names as keys, and null for what is not finite. Left out: empty "steps"
// and "checkpoints", "epoch_under_way" between epochs. One thread at a time.
class History {
 public:
  explicit History(int n_ranks = 1) : n_ranks_(n_ranks) {}

  void add(const EpochRecord& record) {
    epochs_.push_back(record);
    epoch_under_way_.reset();
  }
  void add(const StepRecord& record) { steps_.push_back(record); }
  void add(const CheckpointRecord& record) { checkpoints_.push_back(record); }
  void begin(const EpochUnderWay& epoch) { epoch_under_way_ = epoch; }
  // Forgets the records after `step`, or after `epoch` ended (the epoch under way at `step` may end
  // in it), and the summary: a run that goes on from a checkpoint of that step, with so many epochs
  // done, writes them anew.
  void drop_after(std::int64_t step, std::int64_t epoch = std::numeric_limits<std::int64_t>::max());

  [[nodiscard]] int n_ranks() const { return n_ranks_; }
  [[nodiscard]] std::span<const EpochRecord> epochs() const { return epochs_; }
  [[nodiscard]] std::span<const StepRecord> steps() const { return steps_; }
  [[nodiscard]] std::span<const CheckpointRecord> checkpoints() const { return checkpoints_; }
  // None before the first epoch, and between two.
  [[nodiscard]] const std::optional<EpochUnderWay>& epoch_under_way() const {
    return epoch_under_way_;
  }
  // Figures of the whole run, such as the best accuracy: an object.
  [[nodiscard]] nlohmann::ordered_json& summary() { return summary_; }
  [[nodiscard]] const nlohmann::ordered_json& summary() const { return summary_; }

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // Error: not what to_json() makes, naming the field. Unknown fields are left out, missing
  // measurements are not_measured.
  [[nodiscard]] static History from_json(const nlohmann::ordered_json& document);

  // Writes the file whole or not at all (AtomicFile), one record a line. The cost grows with the
  // number of records.
  void write(const std::filesystem::path& path) const;
  // InputError, naming the file and where there is one the line: it can't be read or is malformed.
  [[nodiscard]] static History read(const std::filesystem::path& path);

 private:
  int n_ranks_ = 1;
  std::vector<EpochRecord> epochs_;
  std::vector<StepRecord> steps_;
  std::vector<CheckpointRecord> checkpoints_;
  std::optional<EpochUnderWay> epoch_under_way_;
  nlohmann::ordered_json summary_ = nlohmann::ordered_json::object();
};

}  // namespace kolo
