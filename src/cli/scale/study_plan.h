#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shared_options.h"
#include "kolo/config/run_config.h"
#include "kolo/observe/study.h"

namespace kolo {

// Begins the setting that gives every rank of a study as many threads.
inline constexpr std::string_view threads_setting = "device.intra_threads=";

// What a study is to vary. Empty lists: the configuration's own value.
struct StudyRequest {
  ConfigOptions config;
  std::vector<int> ranks;
  bool strong = false;  // the batch of all ranks is fixed; otherwise that of a rank
  std::vector<std::string> lr_scalings;
  std::vector<double> warmup_epochs;
  int ranks_per_node = 0;           // 0: all ranks on one node
  std::optional<int> threads = {};  // of a rank, unless the configuration says
  int cores = 1;                    // of the machine
};

// The study with a pending point for every combination, in the order in which they are run: the
// fewest ranks first. Points that train alike have the same folder: where the learning rate is not
// scaled, it doesn't matter how. With strong scaling the rate follows the batch of all ranks, which
// stays, rather than the number of ranks: so all ranks train alike.
//
// InputError: ranks below 1 or none, an unknown scaling, a negative warm-up, a batch that so many
// ranks can't share.
[[nodiscard]] Study plan_study(const StudyRequest& request, const RunConfig& configured);

// key.sub=value: everything that the run of a point has besides the configuration's file and name.
[[nodiscard]] std::vector<std::string> settings_of(const StudyRequest& request, const Study& study,
                                                   const StudyPoint& point);

// "4 ranks, batch 64 a rank, learning rate linear, 3 warm-up epochs"
[[nodiscard]] std::string describe(const StudyPoint& point);

}  // namespace kolo
