#include "online/roles.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"

namespace kolo::online {

namespace {

std::vector<int> trainers_of(const OnlineTrainingConfig& training, int ranks) {
  std::vector<int> trainers;
  for (const auto rank : training.ranks) {
    if (rank >= ranks) {
      throw InputError(
          fmt::format("training.ranks: rank {} is to train, but there are {} ranks, from 0 to {}",
                      rank, ranks, ranks - 1));
    }
    trainers.push_back(narrow<int>(rank));
  }
  std::ranges::sort(trainers);
  trainers.erase(std::unique(trainers.begin(), trainers.end()), trainers.end());
  if (!trainers.empty()) return trainers;
  for (std::int64_t rank = 0; rank < ranks; rank += training.rank_stride)
    trainers.push_back(narrow<int>(rank));
  return trainers;
}

}  // namespace

// Those who don't train are dealt to those who do in blocks, as far as possible of one node.
Roles Roles::of(const OnlineTrainingConfig& training, int rank, int ranks) {
  Roles roles;
  roles.trainers = trainers_of(training, ranks);
  roles.are_all = narrow<int>(roles.trainers.size()) == ranks;
  const auto n_trainers = narrow<std::int64_t>(roles.trainers.size());
  const std::int64_t n_others = ranks - n_trainers;
  if (training.apart && n_others < n_trainers) {
    throw InputError(fmt::format(
        "training.apart: of {} ranks {} would train and {} compute; each that trains takes the "
        "samples of one that computes at least: name fewer in training.ranks, or give a larger "
        "training.rank_stride",
        ranks, n_trainers, n_others));
  }
  const auto is_trainer = [&](int each) { return std::ranges::count(roles.trainers, each) > 0; };
  roles.trains = is_trainer(rank);
  roles.computes = !roles.trains || !training.apart;
  for (std::int64_t other = 0, place = 0; other < ranks; ++other) {
    if (is_trainer(static_cast<int>(other))) continue;
    const auto trainer = roles.trainers[static_cast<std::size_t>(place * n_trainers / n_others)];
    if (other == rank) roles.trainer = trainer;
    if (trainer == rank) roles.clients.push_back(static_cast<int>(other));
    ++place;
  }
  if (roles.trains) roles.trainer = rank;
  return roles;
}

void agree(const Communicator& ranks, const Call& call, const std::function<void()>& local) {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr failure;
  std::string words;
  try {
    local();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    words = error.what();
  }
  const std::int64_t mine = failure ? ranks.rank() : none;
  const auto first = all_reduce_value(ranks, mine, ReduceOp::min);
  if (first == none) return;
  const auto said = broadcast_bytes(ranks, words, static_cast<int>(first));
  if (failure) std::rethrow_exception(failure);
  throw CommunicationError(
      fmt::format("online: {} on rank {}: another rank could not take part, so it is not done: {}",
                  call.name, call.rank, said));
}

}  // namespace kolo::online
