#include "kolo/parallel/sharded_arena_optimizer.h"

#include <atomic>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

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

class ReduceScatterHook final : public GradientHook {
 public:
  void average(const Communicator& communicator, const GradientBucket& bucket) override {
    if (communicator.size() == 1) return;
    const torch::NoGradGuard no_gradient;
    const Shards shards(bucket.flat.numel(), communicator.size());
    const std::string name = fmt::format("bucket {}", bucket.index);
    if (shards.part > 0) {
      // Into memory apart: not every back end can write where the others' input lies.
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
  torch::Tensor part_;                        // as long as the largest bucket's, reused
  std::atomic<std::int64_t> bytes_sent_ = 0;  // read while steps go on
};

}  // namespace

ShardedArenaOptimizer::ShardedArenaOptimizer(const Communicator& communicator,
                                             const std::shared_ptr<ParameterArena>& arena,
                                             std::shared_ptr<const FlatOptimizer> optimizer)
    : BucketOptimizer(
          arena, optimizer,
          "sharded " + parallel::given(optimizer, "ShardedArenaOptimizer", "optimizer")->name()),
      communicator_(arena->gradient_communicator(communicator)) {
  if (algorithm().is_layerwise()) {
    throw InputError(
        fmt::format("parallel: {0} can't be sharded: it needs whole parameters, of which a rank "
                    "would have a part only; train with {0} unsharded, or shard another optimizer",
                    algorithm().name()));
  }
  state_.resize(algorithm().state_names().size());
  for (std::size_t slot = 0; slot < state_.size(); ++slot) {
    for (const Bucket& bucket : arena->plan().buckets) {
      const Shards shards(bucket.count, communicator_.size());
      state_[slot].push_back(
          torch::full({shards.part + shards.left_over()}, algorithm().initial_state(slot),
                      torch::TensorOptions(scalar_type_of(bucket.type)).device(arena->device())));
    }
  }
}

std::shared_ptr<GradientHook> ShardedArenaOptimizer::gradient_hook() const {
  return std::make_shared<ReduceScatterHook>();
}

// Pieces of a bucket's flat tensor that this rank updates: its part, and what is left over.
std::vector<torch::Tensor> ShardedArenaOptimizer::owned(const torch::Tensor& flat) const {
  const Shards shards(flat.numel(), communicator_.size());
  return {flat.narrow(0, communicator_.rank() * shards.part, shards.part),
          flat.narrow(0, shards.remainder, shards.left_over())};
}

std::vector<torch::Tensor> ShardedArenaOptimizer::averages(std::size_t bucket) const {
  return owned(arena().flat_gradients(bucket));
}

torch::Tensor ShardedArenaOptimizer::squared_norm() const {
  const auto options = torch::TensorOptions(torch::kDouble).device(arena().device());
  const auto parts = torch::zeros({1}, options), left_over = torch::zeros({1}, options);
  for (std::size_t bucket = 0; bucket < arena().buckets(); ++bucket) {
    const auto pieces = averages(bucket);
    parallel::add_to_norm(pieces[0], parts);
    parallel::add_to_norm(pieces[1], left_over);  // the same on every rank
  }
  communicator_.all_reduce(buffer_of(parts), ReduceOp::sum, {.name = "gradient norm"});
  return parts + left_over;
}

// This rank's part, and what is left over.
std::vector<BucketOptimizer::Own> ShardedArenaOptimizer::own_parts(std::size_t bucket) const {
  const Shards shards(arena().plan().buckets[bucket].count, communicator_.size());
  const std::int64_t begin = communicator_.rank() * shards.part;
  return {{begin, begin + shards.part, 0}, {shards.remainder, shards.count, shards.part}};
}

void ShardedArenaOptimizer::end_bucket(std::size_t bucket) {
  const torch::Tensor& parameters = arena().flat_parameters(bucket);
  const Shards shards(parameters.numel(), communicator_.size());
  if (communicator_.size() == 1 || shards.part == 0) return;
  gathers_.push_back(communicator_.all_gather_async(
      buffer_of(owned(parameters)[0]), buffer_of(parameters.narrow(0, 0, shards.remainder)),
      {.name = fmt::format("parameters of bucket {}", bucket),
       .owner = std::make_shared<torch::Tensor>(parameters)}));
}

void ShardedArenaOptimizer::end_step() {
  for (Work& gather : gathers_) gather.wait();
  gathers_.clear();
}

std::vector<NamedTensor> ShardedArenaOptimizer::named_state(std::optional<int> only) const {
  require_same_plan();
  communicator_.barrier({.name = "state of a sharded optimizer"});
  communicator_.require_all_ranks(need_of_all);
  const bool keeps = !only || *only == communicator_.rank();
  std::vector<std::vector<torch::Tensor>> whole;
  for (const auto& buckets : state_) {
    if (keeps) whole.push_back(arena().allocate_like_parameters());
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
      const torch::Tensor flat =
          keeps ? whole.back()[bucket] : torch::empty_like(arena().flat_parameters(bucket));
      const Shards shards(flat.numel(), communicator_.size());
      communicator_.all_gather(buffer_of(buckets[bucket].narrow(0, 0, shards.part)),
                               buffer_of(flat.narrow(0, 0, shards.remainder)),
                               {.name = fmt::format("state of bucket {}", bucket)});
      flat.narrow(0, shards.remainder, shards.left_over())
          .copy_(buckets[bucket].narrow(0, shards.part, shards.left_over()));
    }
  }
  return named(whole);  // none where nothing is kept
}

// The first rank sends each bucket whole, and every rank cuts its part out.
void ShardedArenaOptimizer::scatter_state(const Communicator& /*ranks*/,
                                          std::span<const std::int64_t> skipped_steps,
                                          const FillState& fill) {
  require_same_plan();
  const torch::NoGradGuard no_gradient;
  const bool is_first = communicator_.rank() == 0;
  std::vector<std::vector<torch::Tensor>> whole;
  if (is_first) {
    for (std::size_t slot = 0; slot < state_.size(); ++slot)
      whole.push_back(arena().allocate_like_parameters());
    fill(named(whole));
  }
  for (std::size_t slot = 0; slot < state_.size(); ++slot) {
    for (std::size_t bucket = 0; bucket < state_[slot].size(); ++bucket) {
      const torch::Tensor all =
          is_first ? whole[slot][bucket] : torch::empty_like(arena().flat_parameters(bucket));
      communicator_.broadcast(buffer_of(all), 0,
                              {.name = fmt::format("state of bucket {}", bucket)});
      state_[slot][bucket].copy_(torch::cat(owned(all)));
    }
  }
  set_skipped_steps(skipped_steps);
}

}  // namespace kolo
