#pragma once

#include "cli/scale/scheduler.h"
#include "cli/scale/study_folder.h"
#include "cli/scale/study_plan.h"

namespace kolo {

struct RunningOptions {
  bool oversubscribe = false;
  bool quiet = false;  // what the runs say goes to their out.log alone
};

// Runs what is not done yet, one after another, and writes the study after each: a run that was
// interrupted goes on from its checkpoint, one that fails is noted and does not stop the others.
// Says on stderr what it does, so that stdout is the runs'. False: a signal asked to stop.
[[nodiscard]] bool run_points(const StudyRequest& request, const StudyFolder& folder, Study& study,
                              const RunningOptions& options);

// Hands over to the scheduler what is not done and what it does not have yet; writes the study
// after each. A job that ended without finishing its run is handed over again.
void submit_points(const StudyRequest& request, const StudyFolder& folder, Study& study,
                   const SchedulerOptions& scheduler);

// For people: which runs there are and what each would be started with.
[[nodiscard]] std::string describe_plan(const StudyRequest& request, const StudyFolder& folder,
                                        const Study& study);

}  // namespace kolo
