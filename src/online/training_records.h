#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "kolo/base/clock.h"
#include "kolo/train/observe/history.h"
#include "kolo/train/observe/tensorboard.h"
#include "online/online_trainer.h"

namespace kolo::online {

// The record of a training, on the one rank that writes it: history.json and TensorBoard's events.
// Without a folder nothing is written.
class TrainingRecords {
 public:
  TrainingRecords(const OnlineConfig& config, int ranks);
  TrainingRecords(const TrainingRecords&) = delete;
  TrainingRecords& operator=(const TrainingRecords&) = delete;
  // Writes what was added.
  ~TrainingRecords();

  // A step is done; `time_step` is the simulation's.
  void add(const TrainingProgress& progress, std::int64_t time_step);
  void add_value(std::string_view name, std::int64_t step, double value);
  // Writes what was added, so that it is there whatever happens next.
  void flush();
  // Records after so many steps will be written anew.
  void go_back_to(std::int64_t steps);

 private:
  void keep_earlier_history();

  std::filesystem::path folder_;
  std::int64_t every_;
  int ranks_, batch_size_;
  History history_;
  bool is_own_ = false;  // history.json is of this training, or of the one it goes on with
  std::unique_ptr<TensorBoardWriter> events_;
  double loss_ = 0;  // summed up since the last record
  std::int64_t steps_ = 0;
  Stopwatch since_record_, since_flush_;
};

}  // namespace kolo::online
