#include <chrono>
#include <cmath>
#include <thread>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/parallel/grad_scaler.h"
#include "kolo/parallel/gradient_norm.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/parallel/training_step.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

LateNumbers::LateNumbers(const torch::Tensor& numbers) {
  const torch::NoGradGuard no_gradient;
  const auto& device = numbers.device();
  if (device.is_cpu()) {
    copy_ = numbers;
    return;
  }
  copy_ = torch::empty(numbers.sizes(),
                       torch::TensorOptions(torch::kDouble).pinned_memory(device.is_cuda()));
  copy_.copy_(numbers, /*non_blocking=*/true);
  copied_ = std::make_shared<c10::Event>(device.type());
  copied_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

// LibTorch before 2.5 can't wait for an event. It is asked often at first, for the steps of small
// networks.
std::vector<double> LateNumbers::get() const {
  constexpr auto pause = std::chrono::microseconds(50);
  const Stopwatch watch;
  while (copied_ && !copied_->query()) {
    if (watch.seconds() < 2e-4)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(pause);
  }
  const auto* const first = copy_.data_ptr<double>();
  return {first, first + copy_.numel()};
}

// The use of averaged gradients in a step: scale, clip, leave out, update.

// Updates each bucket as soon as it is reduced, while later ones are still on their way.
void TrainingStep::update_as_reduced(double learning_rate, std::int64_t step) {
  const auto& timeline = settings_.timeline;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    const auto number = static_cast<std::int64_t>(bucket);
    auto phase = timeline.span("wait for bucket", "bucket", number);
    reducer_.wait(bucket);
    phase = timeline.span("update bucket", "bucket", number);
    optimizer_->update(bucket, learning_rate, step);
  }
  const auto phase = timeline.span("finish step");
  reducer_.finish();
  optimizer_->finish();
}

// Updates all buckets at the end, where the whole gradient must be known first.
torch::Tensor TrainingStep::update_at_end(double learning_rate, std::int64_t step,
                                          const torch::Tensor& sums) {
  auto phase = settings_.timeline.span("wait for buckets");
  reducer_.finish();
  phase = settings_.timeline.span("update");
  const torch::NoGradGuard no_gradient;
  // A sharded optimizer's gradients are scaled by the host, which waits for the device.
  return arena_->device().is_cpu() || optimizer_->is_sharded()
             ? update_on_host(learning_rate, step, sums)
             : update_on_device(learning_rate, step, sums);
}

torch::Tensor TrainingStep::update_on_host(double learning_rate, std::int64_t step,
                                           const torch::Tensor& sums) {
  // A scale that is too large shows in gradients only; a loss that is not finite has other reasons.
  const bool checks_loss = skips_non_finite() && sums.numel() > 0;
  const bool is_finite = !may_skip() || ((!checks_loss || std::isfinite(sums[0].item<double>())) &&
                                         all_finite(deciding(), *arena_));
  const auto left_out = may_skip()
                            ? torch::full({1}, is_finite ? 0 : 1, sums.options().dtype(torch::kInt))
                            : torch::Tensor();
  if (scaler_) {
    if (is_finite) optimizer_->scale_gradients(1 / scaler_->scale());
    scaler_->update(left_out);
  }
  if (is_finite && settings_.clip_norm > 0) {
    const double norm = std::sqrt(squared_norm().item<double>());
    optimizer_->scale_gradients(clip_factor(norm, settings_.clip_norm));
  }
  if (is_finite) update_all(learning_rate, step, {});
  return left_out;
}

torch::Tensor TrainingStep::update_on_device(double learning_rate, std::int64_t step,
                                             const torch::Tensor& sums) {
  const GradientUse use{factor_on_device(), left_out_on_device(sums)};
  if (scaler_) scaler_->update(use.left_out);
  update_all(learning_rate, step, use);
  return use.left_out;
}

void TrainingStep::update_all(double learning_rate, std::int64_t step, const GradientUse& use) {
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    optimizer_->update(bucket, learning_rate, step, use);
  optimizer_->finish();
}

// Agreed over all ranks: gradients that are not all-reduced may differ.
torch::Tensor TrainingStep::left_out_on_device(const torch::Tensor& sums) const {
  if (!may_skip()) return {};
  auto found = torch::zeros({1}, torch::TensorOptions(torch::kInt).device(arena_->device()));
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    parallel::find_non_finite(arena_->flat_gradients(bucket), found);
  if (skips_non_finite() && sums.numel() > 0)
    found.logical_or_(sums.narrow(0, 0, 1).isfinite().logical_not());
  if (deciding().size() > 1) {
    const auto ranks = world_ ? *world_ : arena_->gradient_communicator(communicator_);
    ranks.all_reduce(buffer_of(found), ReduceOp::max, {.name = "finite gradients"});
  }
  return found;
}

// Gradients are divided by the loss scale first: that of this step, which is no longer scaler_'s
// after scaler_->update().
torch::Tensor TrainingStep::factor_on_device() const {
  const auto scale = scaler_ ? scaler_->scale_tensor().reciprocal() : torch::Tensor();
  if (settings_.clip_norm <= 0) return scale;
  const auto norm = squared_norm().sqrt();
  if (!scaler_) return clip_factor(norm, settings_.clip_norm);
  return clip_factor(norm * scale, settings_.clip_norm) * scale;
}

// Counts gradients that several ranks hold alike once.
torch::Tensor TrainingStep::squared_norm() const {
  auto squares = optimizer_->squared_norm();
  if (!world_) return squares;
  world_->all_reduce(buffer_of(squares), ReduceOp::sum, {.name = "gradient norm"});
  return squares.div_(communicator_.size());
}

// A step that is captured once and replayed: CUDA's graphs.

// Rate and number are those of the step that is being made. The numbers lie at one address where
// the device has graphs.
class TrainingStep::Captured {
 public:
  std::function<void()> replay;
  double learning_rate = 0;
  std::int64_t number = 0;
  torch::Tensor numbers;
};

std::shared_ptr<TrainingStep::Captured> TrainingStep::capture(const std::function<void()>& passes,
                                                              double learning_rate,
                                                              std::int64_t number) {
  auto features = features_of(settings_);
  features.set(StepFeature::graphs);
  require_no_conflicts("parallel", features);
  const auto ranks = arena_->gradient_communicator(communicator_);
  if (arena_->device().is_cuda() && ranks.size() > 1 &&
      !ranks.capabilities().hands_over_to_devices) {
    throw Error(fmt::format(
        "parallel: a step whose gradients are averaged through {} can't be recorded as a CUDA "
        "graph: the host takes part in it. NCCL's can (communication.device_channel=nccl); "
        "device.graphs=false does without",
        ranks.capabilities().device_transport));
  }
  auto captured = std::make_shared<Captured>();
  captured->learning_rate = learning_rate;
  captured->number = number;
  // Constants are copied before capturing: a captured copy would be repeated with every replay.
  optimizer_->prepare(learning_rate, number);
  // The graph must not keep its owner alive.
  captured->replay = parallel::capture_graph(arena_->device(), [this, passes, to = captured.get()] {
    begin(to->number);
    passes();
    to->numbers = complete(to->learning_rate);
  });
  return captured;
}

TrainingStep::Pending TrainingStep::replay(Captured& captured, double learning_rate,
                                           std::int64_t number) {
  const auto phase = settings_.timeline.span("recorded step");
  captured.learning_rate = learning_rate;
  captured.number = number;
  optimizer_->prepare(learning_rate, number);
  captured.replay();
  Pending pending(number, LateNumbers(captured.numbers));
  if (communicator_.size() > 1) {
    const auto present = std::make_shared<std::int32_t>(1);
    pending.meeting_ = arena_->gradient_communicator(communicator_)
                           .all_reduce_async(std::span(present.get(), 1), ReduceOp::min,
                                             {.name = "recorded step", .owner = present});
  }
  return pending;
}

}  // namespace kolo
