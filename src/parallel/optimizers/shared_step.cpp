#include "parallel/optimizers/shared_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kolo/base/checked.h"

namespace kolo::parallel {

namespace {

// Parts are cut at cache lines, so that no two ranks write the same one.
constexpr std::int64_t line = 64;

}  // namespace

std::optional<SharedStep> SharedStep::make(const Communicator& all, const ParameterArena& arena,
                                           bool one_copy) {
  auto node = all.split(all.topology().node);
  SharedStep step(arena.gradient_communicator(all), *std::move(node), arena);
  if (!step.allocate_parameters(one_copy)) return std::nullopt;
  return step;
}

SharedStep::SharedStep(Communicator all, Communicator node, const ParameterArena& arena)
    : all_(std::move(all)), node_(std::move(node)), arena_(arena) {}

// False where the node's ranks can't share memory. One of several nodes may have a single rank,
// which shares with nobody.
bool SharedStep::allocate_parameters(bool one_copy) {
  const auto bytes = narrow<std::size_t>(arena_.plan().total_bytes);
  const bool is_alone = node_.size() == 1;
  if (one_copy) {
    only_parameters_ = is_alone ? node_.allocate(bytes) : node_.allocate_for_node(bytes);
    if (only_parameters_) (void)filled(only_parameters_, 0);
    return only_parameters_ != nullptr;
  }
  if (!is_alone) parameters_ = node_.allocate_shared(bytes);
  return is_alone || !parameters_.empty();
}

void SharedStep::take_parameters(ParameterArena& arena) const {
  if (only_parameters_) {
    arena.share_parameters(node_, only_parameters_);
  } else if (!parameters_.empty()) {
    arena.move_parameters(parameters_[static_cast<std::size_t>(node_.rank())]);
  }
}

SharedStep::Part SharedStep::own_part(std::size_t bucket) const {
  const std::int64_t count = arena_.plan().buckets[bucket].count;
  const std::int64_t lines = (count + line - 1) / line;
  const auto cut = [&](std::int64_t rank) {
    return std::min(count, lines * rank / node_.size() * line);
  };
  return {cut(node_.rank()), cut(node_.rank() + 1)};
}

std::optional<std::vector<torch::Tensor>> SharedStep::allocate_like_parameters(double value) const {
  if (node_.size() == 1) {
    auto flat = arena_.allocate_like_parameters();
    for (const torch::Tensor& bucket : flat) bucket.fill_(value);
    return flat;
  }
  const auto memory = node_.allocate_for_node(narrow<std::size_t>(arena_.plan().total_bytes));
  if (!memory) return std::nullopt;
  return filled(memory, value);
}

// Written by everybody, so that its room is taken before more is asked for, and lies near whoever
// updates it.
std::vector<torch::Tensor> SharedStep::filled(const std::shared_ptr<std::byte>& memory,
                                              double value) const {
  auto flat = arena_.flat_views(memory);
  for (std::size_t bucket = 0; bucket < flat.size(); ++bucket) {
    const auto [begin, end] = own_part(bucket);
    flat[bucket].slice(0, begin, end).fill_(value);
  }
  node_.barrier({.name = "shared state"});
  return flat;
}

// All ranks refuse, those of nodes without a joined one too: they would step alone.
void SharedStep::begin() const {
  constexpr auto need_of_all =
      "parallel: a shared step can't do without a rank that has joined: nobody else of its node "
      "updates its part of the parameters. Give all ranks as many batches (TorchSampler does), or "
      "make the ArenaOptimizer without StepSharing where they join";
  all_.require_all_ranks(need_of_all);
  node_.barrier({.name = "shared step begins"});
  node_.require_all_ranks(need_of_all);
}

void SharedStep::publish(std::size_t bucket, std::int64_t begin, std::int64_t end) const {
  const Bucket& place = arena_.plan().buckets[bucket];
  const auto size = static_cast<std::int64_t>(size_of(place.type));
  const std::int64_t offset = place.offset_bytes + begin * size;
  const auto own = static_cast<std::size_t>(node_.rank());
  for (std::size_t peer = 0; peer < parameters_.size(); ++peer) {
    if (peer == own) continue;
    std::memcpy(parameters_[peer].get() + offset, parameters_[own].get() + offset,
                static_cast<std::size_t>((end - begin) * size));
  }
}

}  // namespace kolo::parallel
