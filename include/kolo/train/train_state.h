#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace kolo {

// Sums over samples, of all ranks together.
struct MetricSums {
  double loss = 0;
  double correct = 0;  // not a number where targets are no classes, so that nothing is counted
  double in_top = 0;   // targets among the few largest logits, where that is counted
  double samples = 0;

  void add(const MetricSums& other) {
    loss += other.loss;
    correct += other.correct;
    in_top += other.in_top;
    samples += other.samples;
  }
  [[nodiscard]] double mean_loss() const { return loss / samples; }
  [[nodiscard]] bool has_accuracy() const { return !std::isnan(correct); }
  [[nodiscard]] double accuracy() const { return correct / samples; }
  [[nodiscard]] double top_accuracy() const { return in_top / samples; }
};

// How far a training has come: plain counters, the same on all ranks, all of it in every
// checkpoint.
struct TrainState {
  bool is_validated = false;       // before training, unless the run began somewhere else
  std::int64_t step = 0;           // optimizer steps done
  std::int64_t epoch = 0;          // epochs done; the number of the one under way, from 0
  std::int64_t position = 0;       // samples that all ranks have drawn in the epoch under way
  MetricSums sums;                 // of the epoch under way, without steps left out for their loss
  std::int64_t skipped_steps = 0;  // of `step`, left out because they were not finite
  std::int64_t skipped_in_epoch = 0;  // of these, in the epoch under way
  double epoch_seconds = 0;           // spent on the epoch under way
  // Since training began, validations included, without pauses before a resumption.
  double seconds = 0;
  // Best of all validations after an epoch (below 0 and infinity: none yet): by the accuracy, or by
  // the loss where there is no accuracy.
  double best_accuracy = -1;
  double best_loss = std::numeric_limits<double>::infinity();
  std::int64_t best_epoch = 0;
};

}  // namespace kolo
