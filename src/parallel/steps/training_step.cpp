#include "kolo/parallel/training_step.h"

#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/ordered_total.h"
#include "kolo/parallel/sharded_arena_optimizer.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/gradients/ordered_average.h"
#include "parallel/tensors/device_stream.h"

namespace kolo {

namespace {

// What a forward pass changes: running statistics. To be put back when its step is left out, or for
// the next part of it.
class BufferCopies {
 public:
  explicit BufferCopies(const torch::nn::Module& network) : buffers_(network.buffers()) {
    for (const auto& buffer : buffers_) copies_.push_back(buffer.detach().clone());
  }
  void put_back() const {
    const torch::NoGradGuard no_gradient;
    for (std::size_t i = 0; i < buffers_.size(); ++i) torch::Tensor(buffers_[i]).copy_(copies_[i]);
  }
  // Where `left_out`, one int32, is not 0.
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

const StepSettings& checked(const StepSettings& settings) {
  require_no_conflicts("parallel", features_of(settings));
  return settings;
}

std::shared_ptr<OrderedAverage> make_ordered_average(const Communicator& communicator,
                                                     const ParameterArena& arena,
                                                     const StepSettings& settings) {
  if (settings.virtual_ranks == 0) return nullptr;
  return std::make_shared<OrderedAverage>(arena.gradient_communicator(communicator), arena,
                                          settings.virtual_ranks);
}

std::unique_ptr<BucketOptimizer> make_bucket_optimizer(
    const Communicator& communicator, const std::shared_ptr<ParameterArena>& arena,
    std::shared_ptr<const FlatOptimizer> algorithm, const StepSettings& settings) {
  if (settings.sharded)
    return std::make_unique<ShardedArenaOptimizer>(communicator, arena, std::move(algorithm));
  return std::make_unique<ArenaOptimizer>(
      communicator, arena, std::move(algorithm),
      settings.reducer.communicate ? settings.shared_step : StepSharing{false});
}

// Hooks of the step's own take the place of the user's, which are refused beside them.
ReducerOptions averaging(ReducerOptions options, const std::shared_ptr<GradientHook>& of_optimizer,
                         const std::shared_ptr<GradientHook>& ordered) {
  if (of_optimizer) options.hook = of_optimizer;
  if (ordered) options.hook = ordered;
  return options;
}

}  // namespace

StepFeatures features_of(const StepSettings& settings) {
  const auto& reducer = settings.reducer;
  return {{StepFeature::sharded, settings.sharded},
          {StepFeature::virtual_ranks, settings.virtual_ranks > 0},
          {StepFeature::parts, settings.world.has_value()},
          {StepFeature::loss_scale, settings.loss_scale.has_value()},
          {StepFeature::gradient_hook, reducer.hook != nullptr},
          {StepFeature::unused_parameters, reducer.unused_parameters},
          {StepFeature::predivide_factor, reducer.predivide_factor != 1},
          {StepFeature::no_communication, !reducer.communicate}};
}

TrainingStep::TrainingStep(Communicator communicator, std::shared_ptr<torch::nn::Module> network,
                           std::shared_ptr<const FlatOptimizer> optimizer,
                           const StepSettings& settings)
    : communicator_(std::move(communicator)),
      world_(settings.world ? std::optional(settings.world->with_own_order()) : std::nullopt),
      network_(std::move(network)),
      settings_(checked(settings)),
      arena_(std::make_shared<ParameterArena>(communicator_, *network_, settings_.buckets)),
      ordered_(make_ordered_average(communicator_, *arena_, settings_)),
      optimizer_(make_bucket_optimizer(communicator_, arena_, std::move(optimizer), settings_)),
      reducer_(communicator_, arena_,
               averaging(settings_.reducer, optimizer_->gradient_hook(), ordered_)),
      finite_check_(deciding(), arena_, {.policy = NonFinite::skip}) {
  settings_.timeline.show_device(arena_->device());
  if (settings_.loss_scale) scaler_.emplace(*settings_.loss_scale, arena_->device());
  arena_->broadcast_parameters(communicator_);
  broadcast_outside_arena(communicator_, *network_);
}

TrainingStep::Outcome TrainingStep::make(const std::function<Forward()>& forward,
                                         double learning_rate, std::int64_t step) {
  return end(begin(forward, learning_rate, step));
}

TrainingStep::Outcome TrainingStep::make(const GradientPasses& passes, double learning_rate,
                                         std::int64_t step) {
  return end(begin(passes, learning_rate, step));
}

TrainingStep::UnderWay TrainingStep::begin(const std::function<Forward()>& forward,
                                           double learning_rate, std::int64_t step) {
  return {step, LateNumbers(enqueue(forward, learning_rate, step))};
}

TrainingStep::UnderWay TrainingStep::begin(const GradientPasses& passes, double learning_rate,
                                           std::int64_t step) {
  const auto gradients = [&](Work& summing) {
    const auto phase = settings_.timeline.span("forward and backward");
    PipelineStep::Backward backward{.reducer = &reducer_};
    if (scaler_)
      backward.scaled = [this](const torch::Tensor& loss) { return scaler_->scaled(loss); };
    const auto sums = in_phase("forward and backward", arena_->device(),
                               [&] { return passes(backward).detach().to(arena_->device()); });
    summing = start_summing(sums);
    return sums;
  };
  return {step, LateNumbers(enqueue_with(gradients, learning_rate, step))};
}

PartRange TrainingStep::parts() const {
  if (ordered_) return ordered_->parts();
  return {communicator_.rank(), communicator_.rank() + 1};
}

TrainingStep::UnderWay TrainingStep::begin(const ForwardOfPart& forward, double learning_rate,
                                           std::int64_t step) {
  if (!ordered_) throw Error("parallel: a step in parts, but there are no virtual ranks");
  const auto gradients = [&](Work& summing) { return part_by_part(forward, summing); };
  return {step, LateNumbers(enqueue_with(gradients, learning_rate, step))};
}

torch::Tensor TrainingStep::enqueue(const std::function<Forward()>& forward, double learning_rate,
                                    std::int64_t step) {
  return enqueue_with([&](Work& summing) { return one_pass(forward, summing); }, learning_rate,
                      step);
}

torch::Tensor TrainingStep::one_pass(const std::function<Forward()>& forward, Work& summing) {
  auto phase = settings_.timeline.span("forward");
  const auto& device = arena_->device();
  const auto [loss, mine] = in_phase("forward", device, forward);
  if (forward_is_done_) forward_is_done_();
  const auto sums =
      mine.defined()
          ? mine.detach().to(arena_->device())
          : torch::empty({0}, torch::TensorOptions(torch::kDouble).device(arena_->device()));
  // Before the gradients on every rank, so in their order: no other thread wakes for it.
  summing = start_summing(sums);
  phase = settings_.timeline.span("backward");
  in_phase("backward", device,
           [&, &of = loss] { (scaler_ ? scaler_->scaled(of) : of).backward(); });
  return sums;
}

// Buffers are those that the step began with for each part, so that they depend on no partition.
torch::Tensor TrainingStep::part_by_part(const ForwardOfPart& forward, Work& summing) {
  const auto& device = arena_->device();
  const auto parts = ordered_->parts();
  const BufferCopies at_begin(*network_);
  std::optional<BufferCopies> after_first;
  std::vector<torch::Tensor> numbers;
  torch::Tensor sums;
  ordered_->start_over();
  for (int part = parts.first; part < parts.end; ++part) {
    const bool is_last = part + 1 == parts.end;
    std::optional<GradientReducer::NoSync> quiet;
    if (!is_last) quiet.emplace(reducer_.no_sync());
    if (part > parts.first) at_begin.put_back();
    auto phase = settings_.timeline.span("forward");
    const auto [loss, mine] = in_phase("forward", device, [&] { return forward(part); });
    numbers.push_back(mine.detach().to(device));
    if (is_last) {
      if (forward_is_done_) forward_is_done_();
      sums = start_summing_parts(torch::stack(numbers), summing);
    }
    phase = settings_.timeline.span("backward");
    in_phase("backward", device,
             [&, &of = loss] { (scaler_ ? scaler_->scaled(of) : of).backward(); });
    if (part == 0 && !is_last) after_first.emplace(*network_);
    if (!is_last) ordered_->take(*arena_);
  }
  if (after_first) after_first->put_back();
  if (communicator_.size() > 1 && !network_->buffers().empty())
    synchronize_buffers(communicator_, *network_);
  return sums;
}

// Returns what holds the sums once `summing` is done.
torch::Tensor TrainingStep::start_summing_parts(const torch::Tensor& sums, Work& summing) {
  const auto total = torch::empty({sums.size(1)}, sums.options());
  const auto ranks = arena_->gradient_communicator(communicator_);
  // Of a small network, in this thread: see GradientUnits::are_done_at_once().
  if (ranks.size() == 1 || (arena_->buckets() == 1 && arena_->device().is_cpu()))
    return torch::Tensor(total).copy_(ordered_total(ranks, settings_.virtual_ranks, sums));
  summing = ranks.enqueue(
      [virtual_ranks = settings_.virtual_ranks, sums, total,
       stream = parallel::TaskStream::of(sums)](const Communicator& communicator) {
        const auto in_stream = stream.enter();
        torch::Tensor(total).copy_(ordered_total(communicator, virtual_ranks, sums));
      },
      {.name = "metrics"});
  return total;
}

Work TrainingStep::start_summing(const torch::Tensor& sums) {
  if (sums.numel() == 0 || deciding().size() == 1) return {};
  const auto ranks = world_ ? *world_ : arena_->gradient_communicator(communicator_);
  CallOptions call{.name = "metrics", .owner = std::make_shared<torch::Tensor>(sums)};
  // Of a small network, in this thread: see GradientUnits::are_done_at_once().
  if (arena_->buckets() == 1 && arena_->device().is_cpu()) {
    ranks.all_reduce(buffer_of(sums), ReduceOp::sum, std::move(call));
    return {};
  }
  return ranks.all_reduce_async(buffer_of(sums), ReduceOp::sum, std::move(call));
}

torch::Tensor TrainingStep::enqueue_with(const std::function<torch::Tensor(Work&)>& gradients,
                                         double learning_rate, std::int64_t step) {
  reducer_.clear_gradients();
  std::optional<BufferCopies> buffers;
  if (may_skip()) buffers.emplace(*network_);
  const auto& device = arena_->device();
  Work summing;
  const auto sums = gradients(summing);
  if (!updates_together()) {
    in_phase("the optimizer", device, [&] { update(learning_rate, step); });
    summing.wait();
    return sums;
  }
  summing.wait();
  const auto left_out =
      in_phase("the optimizer", device, [&] { return update_together(learning_rate, step, sums); });
  if (!left_out.defined()) return sums;
  buffers->put_back_if(left_out);
  return torch::cat({sums, left_out.to(torch::kDouble)});
}

TrainingStep::Outcome TrainingStep::end(const UnderWay& step) {
  step.meeting_.wait();
  Outcome outcome{step.numbers_.get()};
  if (!may_skip()) return outcome;
  outcome.is_made = outcome.sums.back() == 0;
  outcome.sums.pop_back();
  const double loss = outcome.sums.empty() || !skips_non_finite() ? 0 : outcome.sums.front();
  finite_check_.note(step.step_, outcome.is_made, loss);
  return outcome;
}

}  // namespace kolo
