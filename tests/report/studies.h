#pragma once

#include "kolo/train/observe/study.h"

namespace kolo::testing {

inline StudyPoint study_point(int ranks, double warmup, StudyPointState state,
                              double samples_per_second) {
  StudyPoint point{.ranks = ranks, .batch_size = 32, .lr_scaling = "linear"};
  point.nodes = ranks > 8 ? ranks / 8 : 1;
  point.warmup_epochs = warmup;
  point.state = state;
  auto& results = point.results;
  results.samples_per_second = samples_per_second;
  point.efficiency = samples_per_second / ranks / 100;
  results.epoch_seconds = 1000 / samples_per_second;
  results.step_seconds = .1;
  results.data_wait_seconds = .01;
  results.exposed_communication_seconds = ranks > 1 ? .02 : 0;
  return point;
}

// One and two ranks, with and without warm-up, and four that failed, on a node each. Accuracy
// collapses on two ranks without warm-up.
inline Study small_study() {
  Study study{.name = "A study", .configuration = "configs/a.yaml", .scaling = "weak"};
  study.cores = 1;
  for (const double warmup : {0., 3.}) {
    for (const int ranks : {1, 2}) {
      auto point = study_point(ranks, warmup, StudyPointState::done, ranks == 1 ? 100 : 180);
      point.results.samples_per_second_deviation = 10;
      point.results.val_accuracy = ranks == 2 && warmup == 0 ? .1 : .9;
      study.points.push_back(point);
    }
  }
  StudyPoint failed{.ranks = 4, .nodes = 4, .batch_size = 32, .lr_scaling = "linear"};
  failed.state = StudyPointState::failed;
  failed.problem = "rank 3 ended with signal 9";
  study.points.push_back(failed);
  return study;
}

}  // namespace kolo::testing
