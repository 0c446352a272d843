#pragma once

#include <cstdint>

namespace kolo {

// Sums over samples, of all ranks together.
struct MetricSums {
  double loss = 0;
  double correct = 0;
  double in_top = 0;  // targets among the few largest logits, where that is counted
  double samples = 0;

  void add(const MetricSums& other) {
    loss += other.loss;
    correct += other.correct;
    in_top += other.in_top;
    samples += other.samples;
  }
  [[nodiscard]] double mean_loss() const { return loss / samples; }
  [[nodiscard]] double accuracy() const { return correct / samples; }
  [[nodiscard]] double top_accuracy() const { return in_top / samples; }
};

// How far a training has come: plain counters, the same on all ranks, all of it in every
// checkpoint.
struct TrainState {
  std::int64_t step = 0;      // optimizer steps done
  std::int64_t epoch = 0;     // epochs done; the number of the one under way, from 0
  std::int64_t position = 0;  // samples that all ranks have drawn in the epoch under way
  MetricSums sums;            // of the epoch under way
  double epoch_seconds = 0;   // spent on the epoch under way
  double best_accuracy = -1;  // of all validations after an epoch; below 0: none yet
  std::int64_t best_epoch = 0;
};

}  // namespace kolo
