#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/online/online_config.h"
#include "online/samples.h"

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

// Does what each rank does by itself, at the beginning of a collective call. Where it fails on one
// rank, it is an Error on all, and nobody waits for a rank that doesn't come: its own there, and a
// CommunicationError with its words on the others. Costs an all-reduce of eight bytes.
void agree(const Communicator& ranks, const Call& call, const std::function<void()>& local);

}  // namespace kolo::online
