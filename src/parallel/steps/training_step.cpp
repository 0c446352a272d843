#include "kolo/parallel/training_step.h"

#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/sharded_arena_optimizer.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/gradients/ordered_average.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace parallel {

// Copies of the buffers (running statistics), which are put back when a step is left out and before
// its next part.
class BufferCopies {
 public:
  explicit BufferCopies(const torch::nn::Module& network) : buffers_(network.buffers()) {
    for (const auto& buffer : buffers_) copies_.push_back(buffer.detach().clone());
  }
  void put_back() const {
    const torch::NoGradGuard no_gradient;
    for (std::size_t i = 0; i < buffers_.size(); ++i) torch::Tensor(buffers_[i]).copy_(copies_[i]);
  }
  // Puts them back where `left_out`, one int32, is not 0.
  void put_back_if(const torch::Tensor& left_out) const {
    const torch::NoGradGuard no_gradient;
    const bool is_known = left_out.device().is_cpu();
    if (is_known && left_out.item<std::int32_t>() == 0) return;
    const auto is_left_out = left_out.ne(0).squeeze();
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      torch::Tensor(buffers_[i])
          .copy_(is_known ? copies_[i] : torch::where(is_left_out, copies_[i], buffers_[i]));
  }

 private:
  std::vector<torch::Tensor> buffers_, copies_;
};

}  // namespace parallel

struct TrainingStep::Passes {
  std::int64_t number = 0;  // of the step
  int done = 0;
  std::optional<parallel::BufferCopies> at_begin;
  std::optional<parallel::BufferCopies> after_first;  // of all virtual ranks' parts
  std::vector<torch::Tensor> by_part;                 // numbers, with virtual ranks
  torch::Tensor sums;
  bool is_summing = false;
  Work summing;
  std::optional<Timeline::Span> phase;
};

namespace {

const StepSettings& checked(const StepSettings& settings) {
  require_no_conflicts("parallel", features_of(settings));
  return settings;
}

std::shared_ptr<ParameterArena> make_arena(const Communicator& communicator,
                                           const torch::nn::Module& network,
                                           const StepSettings& settings) {
  const auto parameters = network.parameters();
  const auto device = parameters.empty() ? torch::kCPU : parameters.front().device();
  return in_phase("the gradients", device, [&] {
    return std::make_shared<ParameterArena>(communicator, network, settings.buckets);
  });
}

std::shared_ptr<OrderedAverage> make_ordered_average(const Communicator& communicator,
                                                     const ParameterArena& arena,
                                                     const StepSettings& settings) {
  if (settings.virtual_ranks == 0) return nullptr;
  return std::make_shared<OrderedAverage>(arena.gradient_communicator(communicator),
                                          settings.virtual_ranks);
}

std::unique_ptr<BucketOptimizer> make_bucket_optimizer(
    const Communicator& communicator, const std::shared_ptr<ParameterArena>& arena,
    std::shared_ptr<const FlatOptimizer> algorithm, const StepSettings& settings) {
  return in_phase("the optimizer", arena->device(), [&]() -> std::unique_ptr<BucketOptimizer> {
    if (settings.sharded)
      return std::make_unique<ShardedArenaOptimizer>(communicator, arena, std::move(algorithm));
    auto sharing = settings.shared_step;
    sharing.enabled = sharing.enabled && settings.reducer.communicate;
    sharing.averages =
        !needs_whole_gradient(settings) && !settings.reducer.hook && settings.virtual_ranks == 0;
    return std::make_unique<ArenaOptimizer>(communicator, arena, std::move(algorithm), sharing);
  });
}

// Puts the step's own hook where a user's would be; checked() has refused to have both.
ReducerOptions averaging(ReducerOptions options, const BucketOptimizer& optimizer,
                         const std::shared_ptr<GradientHook>& ordered) {
  options.averages = !optimizer.averages_in_update();
  if (const auto of_optimizer = optimizer.gradient_hook()) options.hook = of_optimizer;
  if (ordered) options.hook = ordered;
  return options;
}

}  // namespace

bool needs_whole_gradient(const StepSettings& settings) {
  return settings.clip_norm > 0 || settings.loss_scale ||
         settings.non_finite == NonFiniteStep::skip;
}

StepFeatures features_of(const StepSettings& settings) {
  const auto& reducer = settings.reducer;
  return {{StepFeature::sharded, settings.sharded},
          {StepFeature::virtual_ranks, settings.virtual_ranks > 0},
          {StepFeature::parts, settings.world.has_value()},
          {StepFeature::loss_scale, settings.loss_scale.has_value()},
          {StepFeature::skip_non_finite, settings.non_finite == NonFiniteStep::skip},
          {StepFeature::gradient_hook, reducer.hook != nullptr},
          {StepFeature::error_feedback, reducer.hook && reducer.hook->carries_over()},
          {StepFeature::unused_parameters, reducer.unused_parameters},
          {StepFeature::no_communication, !reducer.communicate}};
}

TrainingStep::TrainingStep(Communicator communicator, std::shared_ptr<torch::nn::Module> network,
                           std::shared_ptr<const FlatOptimizer> optimizer,
                           const StepSettings& settings)
    : communicator_(std::move(communicator)),
      world_(settings.world ? std::optional(settings.world->with_own_order("agreement"))
                            : std::nullopt),
      network_(parallel::given(network, "TrainingStep", "network")),
      settings_(checked(settings)),
      arena_(make_arena(communicator_, *network_, settings_)),
      ordered_(make_ordered_average(communicator_, *arena_, settings_)),
      optimizer_(make_bucket_optimizer(communicator_, arena_, std::move(optimizer), settings_)),
      reducer_(communicator_, arena_, averaging(settings_.reducer, *optimizer_, ordered_)),
      finite_check_(deciding(), arena_, /*most_skipped_in_a_row=*/20) {
  settings_.timeline.show_device(arena_->device());
  if (settings_.loss_scale) scaler_.emplace(*settings_.loss_scale, arena_->device());
  arena_->broadcast_parameters(replicas());
  broadcast_outside_arena(replicas(), *network_);
}

TrainingStep::~TrainingStep() = default;

TrainingStep::Passes& TrainingStep::passes() {
  if (passes_) return *passes_;
  throw Error("parallel: backward() or finish() of a step that has not begun; call begin() first");
}

PartRange TrainingStep::parts() const {
  if (ordered_) return ordered_->parts();
  return {communicator_.rank(), communicator_.rank() + 1};
}

void TrainingStep::begin(std::int64_t number) {
  passes_ = std::make_unique<Passes>();
  passes_->number = number;
  reducer_.clear_gradients();
  if (may_skip() || ordered_) passes_->at_begin.emplace(*network_);
  if (ordered_) ordered_->start_over();
  passes_->phase = settings_.timeline.span("forward");
}

void TrainingStep::backward(const torch::Tensor& loss, const torch::Tensor& numbers, double weight,
                            bool is_last) {
  auto& passes = this->passes();
  if (ordered_ && is_last != (passes.done + 1 == ordered_->parts().size())) {
    throw Error(
        fmt::format("parallel: {} passes{} in a step; with virtual ranks there is one for "
                    "each of this rank's {} parts",
                    passes.done + 1, is_last ? "" : " or more", ordered_->parts().size()));
  }
  add(numbers);
  if (is_last) {
    if (forward_is_done_ && (passes.done == 0 || ordered_)) forward_is_done_();
    // Comes before the gradients on every rank, so it takes their order and wakes no other thread.
    start_summing(passes);
  }
  passes.phase = settings_.timeline.span("backward");
  const auto weighted = weight == 1 ? loss : loss * weight;
  auto quiet = is_last ? nullptr : reducer_.no_sync();
  in_phase("backward", arena_->device(),
           [&] { (scaler_ ? scaler_->scaled(weighted) : weighted).backward(); });
  passes.phase.reset();
  if (!is_last) {
    if (ordered_) end_part(passes);
    passes.phase = settings_.timeline.span("forward");
  }
  ++passes.done;
}

// Every part begins with the step's first buffers, so that they depend on no partition.
void TrainingStep::end_part(Passes& passes) {
  if (ordered_->parts().first + passes.done == 0) passes.after_first.emplace(*network_);
  ordered_->take(*arena_);
  passes.at_begin->put_back();
}

PipelineStep::Backward TrainingStep::pipeline() {
  passes().phase = settings_.timeline.span("forward and backward");
  PipelineStep::Backward backward{.reducer = &reducer_};
  if (scaler_)
    backward.scaled = [this](const torch::Tensor& loss) { return scaler_->scaled(loss); };
  return backward;
}

void TrainingStep::add(const torch::Tensor& numbers) {
  if (!numbers.defined()) return;
  auto& passes = this->passes();
  const auto mine = numbers.detach().to(arena_->device());
  if (ordered_)
    passes.by_part.push_back(mine);
  else
    passes.sums = passes.sums.defined() ? passes.sums + mine : mine;
}

void TrainingStep::start_summing(Passes& passes) {
  passes.is_summing = true;
  const auto ranks = world_ ? *world_ : arena_->gradient_communicator(communicator_);
  // Small networks are served in this thread: see GradientUnits::are_done_at_once().
  const bool is_small = arena_->buckets() == 1 && arena_->device().is_cpu();
  if (!passes.by_part.empty()) {
    const auto sums = torch::stack(passes.by_part);
    passes.sums = torch::empty({sums.size(1)}, sums.options());
    const auto add_up = [virtual_ranks = settings_.virtual_ranks, sums, total = passes.sums,
                         stream =
                             parallel::TaskStream::of(sums)](const Communicator& communicator) {
      const auto in_stream = stream.enter();
      torch::Tensor(total).copy_(ordered_total(communicator, virtual_ranks, sums));
    };
    if (ranks.size() == 1 || is_small)
      add_up(ranks);
    else
      passes.summing = ranks.enqueue(add_up, {.name = "metrics"});
    return;
  }
  if (!passes.sums.defined())
    passes.sums = torch::empty({0}, torch::TensorOptions(torch::kDouble).device(arena_->device()));
  if (passes.sums.numel() == 0 || deciding().size() == 1) return;
  CallOptions call{.name = "metrics", .owner = std::make_shared<torch::Tensor>(passes.sums)};
  if (is_small)
    ranks.all_reduce(buffer_of(passes.sums), ReduceOp::sum, std::move(call));
  else
    passes.summing = ranks.all_reduce_async(buffer_of(passes.sums), ReduceOp::sum, std::move(call));
}

TrainingStep::Pending TrainingStep::finish(double learning_rate) {
  const auto number = passes().number;
  return {number, LateNumbers(complete(learning_rate))};
}

torch::Tensor TrainingStep::complete(double learning_rate) {
  auto& made = passes();
  made.phase.reset();
  if (!made.is_summing) start_summing(made);
  const auto passes = std::exchange(passes_, nullptr);
  if (passes->after_first) passes->after_first->put_back();
  if (ordered_ && communicator_.size() > 1 && !network_->buffers().empty())
    synchronize_buffers(communicator_, *network_);
  const auto& device = arena_->device();
  if (!needs_whole_gradient(settings_) && !optimizer_->averages_in_update()) {
    in_phase("the optimizer", device, [&] { update_as_reduced(learning_rate, passes->number); });
    passes->summing.wait();
    return passes->sums;
  }
  passes->summing.wait();
  const auto left_out = in_phase("the optimizer", device, [&] {
    return update_at_end(learning_rate, passes->number, passes->sums);
  });
  if (!left_out.defined()) return passes->sums;
  passes->at_begin->put_back_if(left_out);
  return torch::cat({passes->sums, left_out.to(torch::kDouble)});
}

TrainingStep::Outcome TrainingStep::end(const Pending& step) {
  step.meeting_.wait();
  Outcome outcome{step.numbers_.get()};
  if (!may_skip()) return outcome;
  outcome.is_made = outcome.sums.back() == 0;
  outcome.sums.pop_back();
  const double loss = outcome.sums.empty() || !skips_non_finite() ? 0 : outcome.sums.front();
  finite_check_.note(step.step_, outcome.is_made, loss);
  if (!outcome.is_made) optimizer_->leave_out(step.step_);
  return outcome;
}

}  // namespace kolo
