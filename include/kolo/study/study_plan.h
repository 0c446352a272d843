#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kolo/config/run_config.h"
#include "kolo/observe/study.h"

namespace kolo {

// What a study is to vary. Empty lists: the configuration's own value.
struct StudyRequest {
  ConfigSource config;
  std::vector<int> ranks;
  std::vector<int> simulated_ranks;  // to predict
  bool strong = false;               // the batch of all ranks is fixed; otherwise that of a rank
  std::vector<std::string> lr_scalings;
  std::vector<double> warmup_epochs;
  int ranks_per_node = 0;  // 0: all ranks on one node
  int threads = 0;         // of a rank, unless the configuration says; 0: what is left to it
  int cores = 1;           // of the machine
  std::filesystem::path program = {};  // kolo, which does the runs; empty: this program is it
};

// The study with a pending point for every combination, in the order in which they are run: the
// fewest ranks first. Points that train alike have the same folder: where the learning rate is not
// scaled, it doesn't matter how. With strong scaling the rate follows the batch of all ranks, which
// stays, rather than the number of ranks: so all ranks train alike.
//
// InputError: ranks below 1 or none, an unknown scaling, a negative warm-up, a batch that so many
// ranks can't share, to predict included.
[[nodiscard]] Study plan_study(const StudyRequest& request, const RunConfig& configured);

// key.sub=value: what all runs of the study have besides the configuration's file and name.
[[nodiscard]] std::vector<std::string> settings_of(const Study& study);
// The same and what the run of a point has.
[[nodiscard]] std::vector<std::string> settings_of(const StudyRequest& request, const Study& study,
                                                   const StudyPoint& point);

// "4 ranks, batch 64 per rank, learning rate linear, 3 warm-up epochs"
[[nodiscard]] std::string describe(const StudyPoint& point);

}  // namespace kolo
