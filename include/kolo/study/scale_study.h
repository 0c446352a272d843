#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kolo/config/run_config.h"
#include "kolo/layout/spatial_network.h"
#include "kolo/run/run.h"
#include "kolo/train/observe/study.h"

// `kolo scale`: the plan of a scaling study, and running it.
namespace kolo {

// Network and samples that all ranks share, where they share each sample.
struct SharedSamples {
  std::vector<FieldLayer> layers;     // of the network
  std::vector<std::int64_t> lengths;  // of a sample, by axis, slowest first
};

// A scheduler to which the runs of a study are handed as jobs.
struct SchedulerOptions {
  std::string name;              // slurm | pbs; empty: the runs are started here
  std::string options;           // of sbatch or qsub, more of them, separated by blanks
  std::filesystem::path script;  // what a job runs; empty: kolo's own
};

// One configuration trained on several numbers of ranks, as `kolo scale` does it. Empty lists: the
// configuration's own value.
struct ScaleRequest {
  ConfigSource config;
  std::vector<int> ranks;
  bool strong = false;   // the batch of all ranks is fixed; otherwise that of a rank or replica
  bool spatial = false;  // ranks share each sample of a batch, which is fixed then
  std::vector<Scaling> lr_scalings;
  std::vector<double> warmup_epochs;
  int ranks_per_node = 0;        // 0: all ranks on one node
  std::filesystem::path output;  // the study's folder; empty: output_dir, with -weak, -strong or
                                 // -spatial
  bool oversubscribe = false;
  SchedulerOptions scheduler;
  std::filesystem::path program = {};  // program that trains; empty: this one
  std::string program_name = "kolo";   // as users type it
  RunComponents components = {};       // of the program
  // Gets lines about the progress, for people.
  std::function<void(const std::string&)> say = [](const std::string&) {};

  // Settled by scale_study().
  std::optional<SharedSamples> shared = std::nullopt;  // of the configuration, if it is spatial
  int threads = 0;  // of a rank, unless the configuration says; 0: what is left to it
  int cores = 1;    // of the machine
};

// The study with a pending point for every combination, the fewest ranks first. Points that train
// alike share a folder, as those whose learning rate is not scaled do. With strong scaling the rate
// follows the batch of all ranks, and with shared samples all ranks are one replica: all points
// train alike. Shared samples are cut as spatial_plans() has it best.
//
// InputError: ranks below 1 or none, a negative warm-up, virtual ranks, whose batch is always that
// of all, without `strong`, and a batch or samples that these ranks can't share; the message says
// how many can.
[[nodiscard]] Study plan_study(const ScaleRequest& request, const RunConfig& configured);

// key.sub=value: what the run of a point has besides the configuration's file and name.
[[nodiscard]] std::vector<std::string> settings_of(const ScaleRequest& request, const Study& study,
                                                   const StudyPoint& point);

// "4 ranks, batch 64 per rank, learning rate linear, 3 warm-up epochs"
[[nodiscard]] std::string describe(const StudyPoint& point);

struct ScaledStudy {
  Study study;
  std::filesystem::path folder;
  bool was_stopped = false;  // by a signal; another call resumes
};

// Does the remaining runs, by kolo train or as jobs of a scheduler, and writes study and report.
// All checks are made before the first run: InputError. A run that fails is noted in its points and
// does not stop the others.
[[nodiscard]] ScaledStudy scale_study(ScaleRequest request);

// Lists the remaining runs with their commands, for people. Makes the same checks, and runs
// nothing.
[[nodiscard]] std::string describe_scale_study(ScaleRequest request);

}  // namespace kolo
