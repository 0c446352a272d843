#include "kolo/parallel/replica_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "parallel/checks/named_parameters.h"
#include "parallel/kernels.h"
#include "parallel/tensors/distinct_tensors.h"

namespace kolo {

namespace {

// The value that most ranks have; of several, the one of the lowest rank.
std::int64_t most_frequent(const std::vector<std::int64_t>& values) {
  const auto count = [&](std::int64_t value) {
    return std::count(values.begin(), values.end(), value);
  };
  return *std::max_element(values.begin(), values.end(),
                           [&](std::int64_t a, std::int64_t b) { return count(a) < count(b); });
}

}  // namespace

std::uint64_t checksum_of(const torch::Tensor& tensor) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor contiguous = tensor.contiguous();
  return parallel::checksum(
      {static_cast<const std::byte*>(contiguous.data_ptr()), contiguous.nbytes()});
}

ReplicaCheck::ReplicaCheck(Communicator communicator, std::int64_t every_steps)
    : communicator_(std::move(communicator)), every_steps_(every_steps) {
  if (every_steps_ < 1) {
    throw Error(fmt::format("parallel: replicas to be compared every {} steps; expected 1 or more",
                            every_steps_));
  }
}

ReplicaCheck::ReplicaCheck(Communicator communicator, const ParameterArena& arena,
                           std::int64_t every_steps)
    : ReplicaCheck(std::move(communicator), every_steps) {
  for (std::size_t index = 0; index < arena.parameters().size(); ++index)
    parameters_.push_back({arena.plan().parameters[index].names(), arena.parameters()[index]});
}

ReplicaCheck::ReplicaCheck(Communicator communicator, const torch::nn::Module& module,
                           std::int64_t every_steps)
    : ReplicaCheck(std::move(communicator), every_steps) {
  for (const auto& each : parallel::distinct_tensors(module.named_parameters()))
    parameters_.push_back({each.names(), each.tensor});
}

void ReplicaCheck::after_step(std::int64_t step) const {
  if (step % every_steps_ == 0) compare(fmt::format("after step {}", step));
}

void ReplicaCheck::compare(const std::string& when) const {
  if (communicator_.size() == 1) return;
  std::vector<std::int64_t> checksums;
  for (const Replicated& parameter : parameters_)
    checksums.push_back(static_cast<std::int64_t>(checksum_of(parameter.tensor)));
  const auto together =
      static_cast<std::int64_t>(parallel::checksum(std::as_bytes(std::span(checksums))));
  // A number of 1 with the checksum; of ranks that have joined come zeros.
  const std::array mine = {std::int64_t{1}, together};
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::vector<std::int64_t> gathered(mine.size() * ranks);
  communicator_.all_gather(std::span(mine), std::span(gathered), {.name = "replica check"});
  std::vector<std::size_t> present;
  bool differs = false;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (gathered[2 * rank] == 0) continue;
    present.push_back(rank);
    differs = differs || gathered[2 * rank + 1] != together;
  }
  // What differs from one rank's differs from some other's, on every rank.
  if (differs) report(checksums, present, when);
}

// `present`: the ranks that have not joined.
void ReplicaCheck::report(const std::vector<std::int64_t>& checksums,
                          const std::vector<std::size_t>& present, const std::string& when) const {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::vector<std::int64_t> gathered(checksums.size() * ranks);
  communicator_.all_gather(std::span(checksums), std::span(gathered),
                           {.name = "replica check by parameter"});
  parallel::NamedParameters named;
  std::set<std::size_t> deviating;
  bool has_majority = true;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    std::vector<std::int64_t> of_ranks;
    for (const std::size_t rank : present)
      of_ranks.push_back(gathered[rank * checksums.size() + index]);
    const std::int64_t usual = most_frequent(of_ranks);
    std::vector<std::size_t> others;
    for (std::size_t place = 0; place < present.size(); ++place) {
      if (of_ranks[place] != usual) others.push_back(present[place]);
    }
    if (others.empty()) continue;
    has_majority = has_majority && 2 * others.size() < present.size();
    deviating.insert(others.begin(), others.end());
    named.add(parameters_[index].name, others);
  }
  throw Error(fmt::format(
      "parallel: {}: the replicas' parameters differ: {}. {} {} {}. A parameter that some rank "
      "updates alone, with a gradient that is not averaged or with random numbers of its own, "
      "makes replicas drift; find it, and go on from a checkpoint written before",
      when, named.text(), parallel::ranks_text(deviating), deviating.size() == 1 ? "is" : "are",
      has_majority ? std::string("unlike the majority")
                   : fmt::format("unlike rank {}'s; no majority agrees", present.front())));
}

}  // namespace kolo
