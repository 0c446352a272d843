#include "kolo/parallel/sharded_arena_optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/kernels.h"
#include "parallel/optimizers/bucket_runs.h"
#include "parallel/optimizers/tensor_steps.h"

namespace kolo {

namespace {

// How a bucket is cut for the ranks, in elements: rank r owns [r * part, (r + 1) * part), a
// multiple of 16 elements, so that a cache line belongs to one rank; [remainder, count) is
// everybody's.
struct Shards {
  std::int64_t part = 0;
  std::int64_t remainder = 0;
  std::int64_t count = 0;

  Shards(std::int64_t elements, int ranks)
      : part(elements / (std::int64_t{16} * ranks) * 16),
        remainder(part * ranks),
        count(elements) {}

  [[nodiscard]] std::int64_t left_over() const { return count - remainder; }
};

constexpr auto need_of_all =
    "parallel: a sharded optimizer can't do without a rank that has joined: it alone has the "
    "optimizer's state for its share of the parameters, which nobody else can update. Give all "
    "ranks as many batches (TorchSampler does), or use DistributedOptimizer where they join";

template <typename T>
std::span<T> span_of(const torch::Tensor& flat) {
  return {flat.data_ptr<T>(), static_cast<std::size_t>(flat.numel())};
}

std::string skipped_name(const ParameterArena& arena, std::size_t parameter) {
  return arena.plan().parameters[parameter].name + ".skipped_steps";
}

class ReduceScatterHook final : public GradientHook {
 public:
  void average(const Communicator& communicator, const GradientBucket& bucket) override {
    if (communicator.size() == 1) return;
    const torch::NoGradGuard no_gradient;
    const Shards shards(bucket.flat.numel(), communicator.size());
    const std::string name = fmt::format("bucket {}", bucket.index);
    if (shards.part > 0) {
      // Not in place: not every back end could write where the others' input lies.
      if (!part_.defined() || part_.scalar_type() != bucket.flat.scalar_type() ||
          part_.numel() < shards.part)
        part_ = torch::empty({shards.part}, bucket.flat.options());
      const torch::Tensor part = part_.narrow(0, 0, shards.part);
      communicator.reduce_scatter(buffer_of(bucket.flat.narrow(0, 0, shards.remainder)),
                                  buffer_of(part), ReduceOp::average, {.name = name});
      communicator.require_all_ranks(need_of_all);
      const torch::Tensor own =
          bucket.flat.narrow(0, communicator.rank() * shards.part, shards.part);
      own.copy_(part);
    }
    if (shards.left_over() > 0) {
      communicator.all_reduce(
          buffer_of(bucket.flat.narrow(0, shards.remainder, shards.left_over())), ReduceOp::average,
          {.name = name + ", remainder"});
      communicator.require_all_ranks(need_of_all);
    }
    bytes_sent_ += static_cast<std::int64_t>(bucket.flat.nbytes());
  }

  [[nodiscard]] bool averages_all() const override { return false; }

  [[nodiscard]] std::int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  torch::Tensor part_;  // as long as the largest bucket's, reused
  std::int64_t bytes_sent_ = 0;
};

}  // namespace

ShardedArenaOptimizer::ShardedArenaOptimizer(const Communicator& communicator,
                                             std::shared_ptr<const ParameterArena> arena,
                                             std::shared_ptr<const FlatOptimizer> optimizer)
    : ShardedArenaOptimizer(communicator, arena, {std::move(optimizer)},
                            std::vector<std::size_t>(arena->parameters().size(), 0)) {}

ShardedArenaOptimizer::ShardedArenaOptimizer(
    const Communicator& communicator, std::shared_ptr<const ParameterArena> arena,
    std::vector<std::shared_ptr<const FlatOptimizer>> algorithms, std::vector<std::size_t> group_of)
    : communicator_(arena->gradient_communicator(communicator)),
      arena_(std::move(arena)),
      version_(arena_->version()),
      optimizer_(algorithms.front()),
      groups_(
          std::make_unique<parallel::ParameterGroups>(std::move(algorithms), std::move(group_of))),
      steps_(std::make_unique<parallel::TensorSteps>()) {
  if (optimizer_->is_layerwise()) {
    throw InputError(
        fmt::format("parallel: {0} can't be sharded: it needs whole parameters, of which a rank "
                    "would have a part only; train with {0} unsharded, or shard another optimizer",
                    optimizer_->name()));
  }
  for (const auto& parameter : arena_->plan().parameters) {
    if (parameter.type == DataType::float32 || parameter.type == DataType::float64) continue;
    throw Error(
        fmt::format("parallel: {} can't be trained by {}: parameters must be float32 or float64",
                    parameter.describe(), optimizer_->name()));
  }
  state_.resize(optimizer_->state_names().size());
  for (std::size_t slot = 0; slot < state_.size(); ++slot) {
    for (const Bucket& bucket : arena_->plan().buckets) {
      const Shards shards(bucket.count, communicator_.size());
      state_[slot].push_back(
          torch::full({shards.part + shards.left_over()}, optimizer_->initial_state(slot),
                      torch::TensorOptions(scalar_type_of(bucket.type)).device(arena_->device())));
    }
  }
}

ShardedArenaOptimizer::ShardedArenaOptimizer(ShardedArenaOptimizer&&) noexcept = default;
ShardedArenaOptimizer& ShardedArenaOptimizer::operator=(ShardedArenaOptimizer&&) noexcept = default;
ShardedArenaOptimizer::~ShardedArenaOptimizer() = default;

std::shared_ptr<GradientHook> ShardedArenaOptimizer::gradient_hook() const {
  return std::make_shared<ReduceScatterHook>();
}

// Of a bucket's flat tensor, what this rank updates: its part, and what is left over.
std::vector<torch::Tensor> ShardedArenaOptimizer::owned(const torch::Tensor& flat) const {
  const Shards shards(flat.numel(), communicator_.size());
  return {flat.narrow(0, communicator_.rank() * shards.part, shards.part),
          flat.narrow(0, shards.remainder, shards.left_over())};
}

double ShardedArenaOptimizer::gradient_norm() const {
  double parts = 0, left_over = 0;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    const auto pieces = owned(arena_->flat_gradients(bucket));
    const auto squares = [&](const torch::Tensor& piece) {
      if (!piece.device().is_cpu())
        return torch::linalg_vector_norm(piece, 2, c10::nullopt, false, torch::kDouble)
            .square()
            .item<double>();
      return piece.scalar_type() == torch::kDouble
                 ? parallel::sum_of_squares(span_of<double>(piece))
                 : parallel::sum_of_squares(span_of<float>(piece));
    };
    parts += squares(pieces[0]);
    left_over += squares(pieces[1]);  // the same on every rank
  }
  return std::sqrt(all_reduce_value(communicator_, parts) + left_over);
}

double ShardedArenaOptimizer::clip_gradients(double maximum_norm) const {
  const double norm = gradient_norm();
  const double factor = maximum_norm / (norm + 1e-6);
  if (!std::isfinite(norm) || factor >= 1) return norm;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    for (const torch::Tensor& piece : owned(arena_->flat_gradients(bucket))) {
      if (!piece.device().is_cpu())
        torch::Tensor(piece).mul_(factor);
      else if (piece.scalar_type() == torch::kDouble)
        parallel::scale(span_of<double>(piece), factor);
      else
        parallel::scale(span_of<float>(piece), factor);
    }
  }
  return norm;
}

void ShardedArenaOptimizer::require_same_plan() const {
  if (arena_->version() == version_) return;
  throw Error(fmt::format(
      "parallel: the arena's buckets were rebuilt after sharded {} was made from it; make the "
      "reducer without rebuild_buckets",
      optimizer_->name()));
}

void ShardedArenaOptimizer::update(std::size_t bucket, double learning_rate, std::int64_t step) {
  update(bucket, std::vector<double>(groups_->algorithms().size(), learning_rate), step);
}

void ShardedArenaOptimizer::update(std::size_t bucket, std::span<const double> learning_rates,
                                   std::int64_t step) {
  require_same_plan();
  if (learning_rates.size() != groups_->algorithms().size()) {
    throw Error(fmt::format(
        "parallel: {} learning rates for sharded {}, which was made with {} groups of parameters; "
        "groups can't be added later",
        learning_rates.size(), optimizer_->name(), groups_->algorithms().size()));
  }
  if (!trained_.empty()) {
    throw Error(fmt::format(
        "parallel: a step of sharded {} while the network has the parameters to be used with; call "
        "to_training() first",
        optimizer_->name()));
  }
  if (std::exchange(noted_step_, step) != step) share_ = rates_.note(learning_rates.front()).share;
  groups_->begin(*arena_, bucket);
  update_share(bucket, learning_rates, step);
  start_gathering(bucket);
}

void ShardedArenaOptimizer::start_gathering(std::size_t bucket) {
  const torch::Tensor& parameters = arena_->flat_parameters(bucket);
  const Shards shards(parameters.numel(), communicator_.size());
  if (communicator_.size() == 1 || shards.part == 0) return;
  gathers_.push_back(communicator_.all_gather_async(
      buffer_of(owned(parameters)[0]), buffer_of(parameters.narrow(0, 0, shards.remainder)),
      {.name = fmt::format("parameters of bucket {}", bucket),
       .owner = std::make_shared<torch::Tensor>(parameters)}));
}

void ShardedArenaOptimizer::update_share(std::size_t bucket, std::span<const double> learning_rates,
                                         std::int64_t step) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor& parameters = arena_->flat_parameters(bucket);
  const torch::Tensor& gradients = arena_->flat_gradients(bucket);
  const Shards shards(parameters.numel(), communicator_.size());
  // `skipped` elements of the bucket lie before those that this rank has state for.
  const auto update_between = [&](std::int64_t begin, std::int64_t end, std::int64_t skipped) {
    for (const auto& run : groups_->runs(*arena_, bucket, step, begin, end)) {
      parallel::TensorSlice slice{parameters.narrow(0, run.offset, run.count),
                                  gradients.narrow(0, run.offset, run.count),
                                  {},
                                  run.is_vector};
      for (const auto& buckets : state_)
        slice.state.push_back(buckets[bucket].narrow(0, run.offset - skipped, run.count));
      steps_->update(*groups_->algorithms()[run.group], slice, {learning_rates[run.group], share_},
                     run.step);
    }
  };
  const std::int64_t begin = communicator_.rank() * shards.part;
  update_between(begin, begin + shards.part, begin);
  update_between(shards.remainder, shards.count, shards.remainder - shards.part);
}

void ShardedArenaOptimizer::finish() {
  for (Work& gather : gathers_) gather.wait();
  gathers_.clear();
}

void ShardedArenaOptimizer::put_share(std::size_t bucket, const torch::Tensor& values) {
  const auto pieces = owned(arena_->flat_parameters(bucket));
  pieces[0].copy_(values.narrow(0, 0, pieces[0].numel()));
  pieces[1].copy_(values.narrow(0, pieces[0].numel(), pieces[1].numel()));
  start_gathering(bucket);
}

// As ArenaOptimizer does it, to the bit.
void ShardedArenaOptimizer::to_evaluation() {
  const auto use = optimizer_->for_use();
  if (!use || !trained_.empty()) return;
  require_same_plan();
  const torch::NoGradGuard no_gradient;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    trained_.push_back(torch::cat(owned(arena_->flat_parameters(bucket))));
    put_share(bucket, trained_.back() - state_[use->place][bucket].mul(use->factor));
  }
  finish();
}

void ShardedArenaOptimizer::to_training() {
  if (trained_.empty()) return;
  require_same_plan();
  const torch::NoGradGuard no_gradient;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    put_share(bucket, trained_[bucket]);
  trained_.clear();
  finish();
}

std::vector<ShardedArenaOptimizer::NamedState> ShardedArenaOptimizer::gather_state(
    std::optional<int> only) const {
  require_same_plan();
  communicator_.barrier({.name = "state of a sharded optimizer"});
  communicator_.require_all_ranks(need_of_all);
  const bool keeps = !only || *only == communicator_.rank();
  std::vector<std::vector<torch::Tensor>> whole;
  for (const auto& buckets : state_) {
    if (keeps) whole.push_back(arena_->allocate_like_parameters());
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
      const torch::Tensor flat =
          keeps ? whole.back()[bucket] : torch::empty_like(arena_->flat_parameters(bucket));
      const Shards shards(flat.numel(), communicator_.size());
      communicator_.all_gather(buffer_of(buckets[bucket].narrow(0, 0, shards.part)),
                               buffer_of(flat.narrow(0, 0, shards.remainder)),
                               {.name = fmt::format("state of bucket {}", bucket)});
      flat.narrow(0, shards.remainder, shards.left_over())
          .copy_(buckets[bucket].narrow(0, shards.part, shards.left_over()));
    }
  }
  std::vector<NamedState> named;
  if (!keeps) return named;
  const auto names = optimizer_->state_names();
  for (std::size_t parameter = 0; parameter < arena_->parameters().size(); ++parameter) {
    for (std::size_t slot = 0; slot < whole.size(); ++slot) {
      named.push_back({fmt::format("{}.{}", arena_->plan().parameters[parameter].name, names[slot]),
                       arena_->view_of(parameter, whole[slot])});
    }
    const std::int64_t skipped = groups_->skipped()[parameter];
    if (skipped > 0)
      named.push_back({skipped_name(*arena_, parameter), torch::full({}, skipped, torch::kLong)});
  }
  return named;
}

// By state, by bucket, as the arena is laid out.
std::vector<std::vector<torch::Tensor>> ShardedArenaOptimizer::flat_state_of(
    std::span<const NamedState> whole) const {
  std::map<std::string, torch::Tensor> given;
  for (const NamedState& item : whole) given.emplace(item.name, item.tensor);
  std::vector<std::vector<torch::Tensor>> flat;
  for (const std::string_view name : optimizer_->state_names()) {
    flat.push_back(arena_->allocate_like_parameters());
    for (std::size_t index = 0; index < arena_->parameters().size(); ++index) {
      const auto key = fmt::format("{}.{}", arena_->plan().parameters[index].name, name);
      const torch::Tensor place = arena_->view_of(index, flat.back());
      const auto found = given.find(key);
      if (found == given.end() || found->second.sizes() != place.sizes() ||
          found->second.scalar_type() != place.scalar_type()) {
        throw Error(fmt::format("parallel: the state to load has no {} of the shape and type of {}",
                                key, arena_->plan().parameters[index].describe()));
      }
      place.copy_(found->second);
    }
  }
  return flat;
}

void ShardedArenaOptimizer::load_state(std::span<const NamedState> whole) {
  require_same_plan();
  const torch::NoGradGuard no_gradient;
  std::map<std::string, torch::Tensor> given;
  for (const NamedState& item : whole) given.emplace(item.name, item.tensor);
  const auto names = optimizer_->state_names();
  const auto& parameters = arena_->parameters();
  // A state of before kolo knew tied weights has them under each of their names.
  for (const auto& parameter : arena_->plan().parameters) {
    for (const std::string& other : parameter.other_names) {
      for (const std::string_view name : names) given.erase(fmt::format("{}.{}", other, name));
    }
  }
  std::vector<std::int64_t> skipped(parameters.size(), 0);
  auto expected = names.size() * parameters.size();
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const auto found = given.find(skipped_name(*arena_, index));
    if (found == given.end()) continue;
    skipped[index] = found->second.item<std::int64_t>();
    ++expected;
  }
  if (given.size() != expected) {
    throw Error(fmt::format("parallel: a state of {} tensors for {}; expected {}, {} a parameter",
                            given.size(), optimizer_->name(), expected, names.size()));
  }
  const auto flat = flat_state_of(whole);
  for (std::size_t slot = 0; slot < state_.size(); ++slot) {
    for (std::size_t bucket = 0; bucket < state_[slot].size(); ++bucket)
      state_[slot][bucket].copy_(torch::cat(owned(flat[slot][bucket])));
  }
  std::copy(skipped.begin(), skipped.end(), groups_->skipped().begin());
}

std::vector<ShardedArenaOptimizer::NamedState> ShardedArenaOptimizer::state_shapes() const {
  std::vector<NamedState> named;
  for (std::size_t parameter = 0; parameter < arena_->parameters().size(); ++parameter) {
    const auto& value = arena_->parameters()[parameter];
    for (const auto name : optimizer_->state_names()) {
      named.push_back({fmt::format("{}.{}", arena_->plan().parameters[parameter].name, name),
                       torch::empty(value.sizes(), value.options().device(torch::kMeta))});
    }
  }
  return named;
}

// Each bucket of the root's is sent whole: every rank cuts its part out.
void ShardedArenaOptimizer::scatter_state(std::span<const NamedState> whole, int root,
                                          std::span<const std::int64_t> skipped_steps) {
  require_same_plan();
  const torch::NoGradGuard no_gradient;
  const bool is_root = communicator_.rank() == root;
  const auto flat = is_root ? flat_state_of(whole) : std::vector<std::vector<torch::Tensor>>();
  for (std::size_t slot = 0; slot < state_.size(); ++slot) {
    for (std::size_t bucket = 0; bucket < state_[slot].size(); ++bucket) {
      const torch::Tensor all =
          is_root ? flat[slot][bucket] : torch::empty_like(arena_->flat_parameters(bucket));
      communicator_.broadcast(buffer_of(all), root,
                              {.name = fmt::format("state of bucket {}", bucket)});
      state_[slot][bucket].copy_(torch::cat(owned(all)));
    }
  }
  std::ranges::copy(skipped_steps, groups_->skipped().begin());
}

std::vector<std::int64_t> ShardedArenaOptimizer::skipped_steps() const {
  return {groups_->skipped().begin(), groups_->skipped().end()};
}

std::int64_t ShardedArenaOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& buckets : state_) {
    for (const torch::Tensor& bucket : buckets) bytes += static_cast<std::int64_t>(bucket.nbytes());
  }
  return bytes;
}

}  // namespace kolo
