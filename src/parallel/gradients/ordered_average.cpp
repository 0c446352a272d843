#include "parallel/gradients/ordered_average.h"

#include <numeric>
#include <utility>

#include "kolo/parallel/tensor_collectives.h"
#include "parallel/kernels.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

// Add and scale in this thread alone: LibTorch would use all cores, which belong to backward.

void add_here(const torch::Tensor& left, const torch::Tensor& right) {
  if (!left.device().is_cpu())
    torch::Tensor(left).add_(right);
  else if (left.scalar_type() == torch::kDouble)
    parallel::add(parallel::elements_of<double>(left), parallel::elements_of<double>(right));
  else
    parallel::add(parallel::elements_of<float>(left), parallel::elements_of<float>(right));
}

constexpr auto add_tensors = [](torch::Tensor& left, const torch::Tensor& right) {
  add_here(left, right);
};

constexpr auto add_buffers = [](std::vector<torch::Tensor>& left,
                                const std::vector<torch::Tensor>& right) {
  for (std::size_t bucket = 0; bucket < left.size(); ++bucket)
    add_here(left[bucket], right[bucket]);
};

void scale_here(const torch::Tensor& flat, double factor) {
  if (!flat.device().is_cpu())
    torch::Tensor(flat).mul_(factor);
  else if (flat.scalar_type() == torch::kDouble)
    parallel::scale(parallel::elements_of<double>(flat), factor);
  else
    parallel::scale(parallel::elements_of<float>(flat), factor);
}

// Lengths of the ranks' slices of so many elements.
std::vector<std::int64_t> slices_of(std::int64_t elements, int ranks) {
  std::vector<std::int64_t> slices;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [begin, end] = parallel::slice_of(elements, ranks, rank);
    slices.push_back(end - begin);
  }
  return slices;
}

// Whether every node has as many ranks, more than one, and one after another: only then do ranks of
// the same local rank form a set.
bool are_nodes_alike(const Topology& topology) {
  const int on_each = topology.size / topology.nodes;
  if (on_each == 1) return false;
  for (int rank = 0; rank < topology.size; ++rank)
    if (topology.node_of_rank[static_cast<std::size_t>(rank)] != rank / on_each) return false;
  return true;
}

}  // namespace

OrderedAverage::OrderedAverage(const Communicator& communicator, int virtual_ranks)
    : virtual_ranks_(virtual_ranks),
      parts_(parts_of_rank(virtual_ranks, communicator.size(), communicator.rank())) {
  add_levels(communicator);
  start_over();
}

// Exchanges among all ranks at once, or among those of a node and then those that have the same
// slice on all nodes.
void OrderedAverage::add_levels(const Communicator& communicator) {
  const auto sums_of = [&](int groups) {
    std::vector<std::vector<PartialSum>> sums;
    for (int group = 0; group < groups; ++group)
      sums.push_back(partial_sums(parts_of_rank(virtual_ranks_, groups, group)));
    return sums;
  };
  const auto& topology = communicator.topology();
  const int ranks = communicator.size();
  if (ranks == 1) return;
  if (topology.nodes == 1 || !are_nodes_alike(topology)) {
    levels_.push_back({std::nullopt, sums_of(ranks)});
    return;
  }
  auto of_ranks = sums_of(ranks);
  const auto first = of_ranks.begin() + topology.rank - topology.local_rank;
  levels_.push_back(
      {communicator.split(topology.node, 0, "node").value(), {first, first + topology.local_size}});
  // A node's parts are those of its ranks, which may not be as many as parts_of_rank() gives it.
  std::vector<std::vector<PartialSum>> of_nodes;
  for (int node = 0; node < topology.nodes; ++node) {
    const auto from = parts_of_rank(virtual_ranks_, ranks, node * topology.local_size);
    const auto to = parts_of_rank(virtual_ranks_, ranks, (node + 1) * topology.local_size - 1);
    of_nodes.push_back(partial_sums({from.first, to.end}));
  }
  levels_.push_back(
      {communicator.split(topology.local_rank, 0, "nodes").value(), std::move(of_nodes)});
}

void OrderedAverage::start_over() {
  for (auto& item : taken_.take()) unused_.push_back(std::move(item.value));
  next_part_ = parts_.first;
}

void OrderedAverage::buckets_changed() {
  (void)taken_.take();
  unused_.clear();
}

OrderedAverage::Buffers OrderedAverage::lend(const ParameterArena& arena) {
  if (unused_.empty()) {
    Buffers buffers;
    for (std::size_t bucket = 0; bucket < arena.buckets(); ++bucket)
      buffers.push_back(torch::zeros_like(arena.flat_gradients(bucket)));
    return buffers;
  }
  auto buffers = std::move(unused_.back());
  unused_.pop_back();
  return buffers;
}

void OrderedAverage::take(const ParameterArena& arena) {
  const torch::NoGradGuard no_gradient;
  const PartialSum part{0, next_part_++};
  auto buffers = lend(arena);
  for (std::size_t i = 0; i < arena.parameters().size(); ++i) {
    auto& gradient = torch::Tensor(arena.parameters()[i]).mutable_grad();
    const auto view = arena.view_of(i, buffers);
    if (gradient.defined())
      view.copy_(parallel::dense(gradient));
    else
      view.zero_();
    gradient = torch::Tensor();
  }
  taken_.add(part, std::move(buffers), [&](Buffers& left, Buffers& right) {
    add_buffers(left, right);
    unused_.push_back(std::move(right));
  });
}

void OrderedAverage::average(const Communicator& communicator, const GradientBucket& bucket) {
  Sums sums;
  for (const auto& [sum, buffers] : taken_.items())
    sums.add(sum, buffers[bucket.index], add_tensors);
  sums.add({0, parts_.end - 1}, bucket.flat, add_tensors);
  reduce(communicator, 0, sums.take(), bucket.flat);
}

// `result` may be one of the sums.
void OrderedAverage::reduce(const Communicator& all, std::size_t level,
                            std::vector<Sums::Item> mine, const torch::Tensor& result) {
  if (level == levels_.size()) {
    Sums sums;
    for (auto& item : mine) sums.add(item.sum, std::move(item.value), add_tensors);
    const auto total = std::move(sums).total(add_tensors);
    if (!total.is_same(result)) torch::Tensor(result).copy_(total);
    return scale_here(result, 1.0 / virtual_ranks_);
  }
  const auto& sums = levels_[level].sums;
  const auto& ranks = levels_[level].ranks ? *levels_[level].ranks : all;
  const bool is_pair = ranks.size() == 2 && sums[0].size() == 1 && sums[1].size() == 1;
  if (is_pair && level + 1 == levels_.size()) {
    if (!mine[0].value.is_same(result)) torch::Tensor(result).copy_(mine[0].value);
    ranks.all_reduce(buffer_of(result), ReduceOp::sum);
    bytes_ += static_cast<std::int64_t>(result.nbytes());
    return scale_here(result, 1.0 / virtual_ranks_);
  }
  const auto slices = slices_of(result.numel(), ranks.size());
  const auto begin =
      std::accumulate(slices.begin(), slices.begin() + ranks.rank(), std::int64_t{0});
  const auto slice = result.narrow(0, begin, slices[static_cast<std::size_t>(ranks.rank())]);
  reduce(all, level + 1, exchange(ranks, sums, mine, slices), slice);
  ranks.all_gather_uneven(buffer_of(slice), buffer_of(result), slices);
  bytes_ += static_cast<std::int64_t>(slice.nbytes());
}

// Returns the sums of this rank's slice that the ranks have after it.
std::vector<OrderedAverage::Sums::Item> OrderedAverage::exchange(
    const Communicator& ranks, const std::vector<std::vector<PartialSum>>& sums_of_ranks,
    const std::vector<Sums::Item>& mine, std::span<const std::int64_t> slices) {
  const auto rank = static_cast<std::size_t>(ranks.rank());
  std::vector<std::int64_t> sent, received;
  std::vector<torch::Tensor> pieces;
  std::int64_t begin = 0;
  for (std::size_t other = 0; other < slices.size(); ++other) {
    sent.push_back(slices[other] * static_cast<std::int64_t>(mine.size()));
    received.push_back(slices[rank] * static_cast<std::int64_t>(sums_of_ranks[other].size()));
    for (const auto& item : mine) pieces.push_back(item.value.narrow(0, begin, slices[other]));
    begin += slices[other];
  }
  const auto input = mine.size() == 1 ? mine[0].value : torch::cat(pieces);
  const auto output = torch::empty(
      {std::accumulate(received.begin(), received.end(), std::int64_t{0})}, input.options());
  ranks.all_to_all(buffer_of(input), sent, buffer_of(output), received);
  bytes_ += static_cast<std::int64_t>(input.nbytes());
  Sums sums;
  begin = 0;
  for (const auto& of_rank : sums_of_ranks) {
    for (const auto& sum : of_rank) {
      sums.add(sum, output.narrow(0, begin, slices[rank]), add_tensors);
      begin += slices[rank];
    }
  }
  return sums.take();
}

}  // namespace kolo
