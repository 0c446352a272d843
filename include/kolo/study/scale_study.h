#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "kolo/observe/study.h"
#include "kolo/study/scheduler.h"
#include "kolo/study/study_plan.h"
#include "kolo/study/study_predictions.h"

// One configuration trained on several numbers of ranks, as `kolo scale` does it.
namespace kolo {

struct RunningOptions {
  bool oversubscribe = false;
  bool quiet = false;  // what the runs say goes to their out.log alone
  // Is told what is done, for people.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

struct ScaleRequest {
  StudyRequest study;
  std::filesystem::path output;  // the study's folder; empty: output_dir, with -weak or -strong
  RunningOptions running;
  SchedulerOptions scheduler;    // without a name: the runs are started here
  SimulationOptions simulation;  // without ranks: nothing is predicted
};

struct ScaledStudy {
  Study study;
  std::filesystem::path folder;
  bool was_stopped = false;  // by a signal; another call goes on
};

// Runs what is not done yet of the study, by kolo train or as jobs of a scheduler,
// adds predictions, and writes study and report. All that can be wrong is found before the first
// run: InputError. A run that fails is noted in its points and does not stop the others.
[[nodiscard]] ScaledStudy scale_study(ScaleRequest request);

// For people: which runs there are still to do, and what each would be started with. Checks the
// same, and does nothing.
[[nodiscard]] std::string describe_scale_study(ScaleRequest request);

}  // namespace kolo
