#include "kolo/parallel/checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fingerprint.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

// "rank 2", "ranks 1, 3"
template <typename Ranks>
[[nodiscard]] std::string ranks_text(const Ranks& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

// Faulty parameters, with the ranks on which they are.
using NamedRanks = std::vector<std::pair<std::string, std::vector<std::size_t>>>;

// "first.weight (ranks 1, 2), second.bias (rank 1)": the first ten, and how many more there are.
std::string describe_ranks(const NamedRanks& found) {
  constexpr std::size_t most_named = 10;
  std::vector<std::string> named;
  for (const auto& [name, ranks] : found)
    if (named.size() < most_named) named.push_back(fmt::format("{} ({})", name, ranks_text(ranks)));
  return fmt::format(
      "{}{}", fmt::join(named, ", "),
      found.size() > most_named ? fmt::format(", {} more", found.size() - most_named) : "");
}

}  // namespace

bool is_finite(const torch::Tensor& tensor) {
  const auto found = torch::zeros({1}, tensor.options().dtype(torch::kInt));
  parallel::find_non_finite(tensor, found);
  return found.item<std::int32_t>() == 0;
}

bool all_finite(const Communicator& communicator, const ParameterArena& arena) {
  bool finite = true;
  for (std::size_t bucket = 0; finite && bucket < arena.buckets(); ++bucket)
    finite = is_finite(arena.flat_gradients(bucket));
  return all_reduce_value(communicator, std::int32_t{finite ? 1 : 0}, ReduceOp::min) == 1;
}

FiniteCheck::FiniteCheck(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
                         std::int64_t most_skipped_in_a_row)
    : communicator_(std::move(communicator)),
      arena_(parallel::given(arena, "FiniteCheck", "arena")),
      most_in_a_row_(most_skipped_in_a_row) {}

bool FiniteCheck::may_step(std::int64_t step, double loss) {
  const bool is_finite = std::isfinite(loss) && all_finite(communicator_, *arena_);
  note(step, is_finite, loss);
  return is_finite;
}

void FiniteCheck::note(std::int64_t step, bool is_finite, double loss) {
  if (is_finite) {
    in_a_row_ = 0;
    return;
  }
  if (in_a_row_ >= most_in_a_row_) {
    const std::string skipped =
        in_a_row_ > 0
            ? fmt::format(", and {} steps before it were skipped for the same reason", in_a_row_)
            : "";
    throw Error(
        fmt::format("parallel: step {}: {}{}; a smaller learning rate or gradient clipping may "
                    "help, and so may a look at the samples of this step",
                    step, problem(loss), skipped));
  }
  ++in_a_row_;
}

// Names the parameters, since ranks may hold different parts of a network. Collective.
std::string FiniteCheck::problem(double loss) const {
  std::string mine;  // a name per line
  for (std::size_t index = 0; index < arena_->parameters().size(); ++index) {
    if (!is_finite(arena_->gradient_view(index)))
      mine += arena_->plan().parameters[index].names() + '\n';
  }
  const auto all =
      all_gather_bytes(communicator_, mine, {.name = "where gradients are not finite"});
  NamedRanks found;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream lines(all[rank]);
    for (std::string name; std::getline(lines, name);) {
      auto known = std::ranges::find(found, name, [](const auto& each) { return each.first; });
      if (known == found.end()) known = found.insert(known, {name, {}});
      known->second.push_back(rank);
    }
  }
  if (found.empty()) return fmt::format("the loss is {}", loss);
  return fmt::format("gradients are infinite or not a number: {}", describe_ranks(found));
}

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
  return static_cast<std::uint64_t>(parallel::checksums_of({tensor}).front());
}

ReplicaCheck::ReplicaCheck(Communicator communicator, const ParameterArena& arena,
                           std::int64_t every_steps)
    : communicator_(std::move(communicator)), every_steps_(every_steps) {
  if (every_steps_ < 1) {
    throw Error(fmt::format("parallel: replicas to be compared every {} steps; expected 1 or more",
                            every_steps_));
  }
  for (std::size_t index = 0; index < arena.parameters().size(); ++index)
    parameters_.push_back({arena.plan().parameters[index].names(), arena.parameters()[index]});
}

void ReplicaCheck::after_step(std::int64_t step) const {
  if (step % every_steps_ == 0) compare(fmt::format("after step {}", step));
}

void ReplicaCheck::compare(const std::string& when) const {
  if (communicator_.size() == 1) return;
  std::vector<torch::Tensor> tensors;
  for (const auto& parameter : parameters_) tensors.push_back(parameter.tensor);
  const auto checksums = parallel::checksums_of(tensors);
  const auto together =
      static_cast<std::int64_t>(fingerprint_of({reinterpret_cast<const char*>(checksums.data()),
                                                checksums.size() * sizeof(checksums.front())}));
  // A 1 beside the checksum tells present ranks from joined ones, which send zeros.
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
  // All ranks come here: each sees some checksum that differs from its own.
  if (differs) report(checksums, present, when);
}

// `present`: the ranks that have not joined.
void ReplicaCheck::report(const std::vector<std::int64_t>& checksums,
                          const std::vector<std::size_t>& present, const std::string& when) const {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::vector<std::int64_t> gathered(checksums.size() * ranks);
  communicator_.all_gather(std::span(checksums), std::span(gathered),
                           {.name = "replica check by parameter"});
  NamedRanks found;
  std::set<std::size_t> deviating;
  bool has_majority = true;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    std::vector<std::int64_t> of_ranks;
    for (const std::size_t rank : present)
      of_ranks.push_back(gathered[rank * checksums.size() + index]);
    const std::int64_t usual = most_frequent(of_ranks);
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < present.size(); ++i) {
      if (of_ranks[i] != usual) others.push_back(present[i]);
    }
    if (others.empty()) continue;
    has_majority = has_majority && 2 * others.size() < present.size();
    deviating.insert(others.begin(), others.end());
    found.emplace_back(parameters_[index].name, others);
  }
  throw Error(fmt::format(
      "parallel: {}: the replicas' parameters differ: {}. {} {} {}. A parameter that some rank "
      "updates alone, with a gradient that is not averaged or with random numbers of its own, "
      "makes replicas drift; find it, and go on from a checkpoint written before",
      when, describe_ranks(found), ranks_text(deviating), deviating.size() == 1 ? "is" : "are",
      has_majority ? std::string("unlike the majority")
                   : fmt::format("unlike rank {}'s; no majority agrees", present.front())));
}

}  // namespace kolo
