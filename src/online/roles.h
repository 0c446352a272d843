#pragma once

#include <vector>

#include "kolo/online/online_config.h"

namespace kolo::online {

// Who trains: all ranks, a list, or every so many-th. The others hand their samples to one of those
// that do, and get the weights.
struct Roles {
  std::vector<int> trainers;  // ascending
  std::vector<int> clients;   // whose samples this rank takes, besides its own
  int trainer = 0;            // who takes this rank's samples
  bool trains = true;         // this rank
  bool computes = true;       // this rank; one that trains apart doesn't
  bool are_all = true;        // every rank trains

  // InputError for ranks that are not there.
  [[nodiscard]] static Roles of(const OnlineTrainingConfig& training, int rank, int ranks);
};

}  // namespace kolo::online
