#include "kolo/parallel/training_step.h"

#include <chrono>
#include <cmath>
#include <thread>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensor_passes.h"

namespace kolo {

GradScaler::GradScaler(const LossScaleOptions& options, const torch::Device& device)
    : options_(options),
      scale_(
          torch::full({1}, options.initial, torch::TensorOptions(torch::kDouble).device(device))),
      good_steps_(torch::zeros({1}, torch::TensorOptions(torch::kLong).device(device))) {
  const auto is_positive = [](double number) { return number > 0 && std::isfinite(number); };
  if (is_positive(options.initial) && is_positive(options.growth) && options.growth >= 1 &&
      is_positive(options.backoff) && options.backoff <= 1 && options.growth_interval >= 1)
    return;
  throw InputError(fmt::format(
      "loss scale: initial {}, growth {} after {} steps, backoff {}; expected numbers above 0, the "
      "growth at least 1, the backoff at most 1",
      options.initial, options.growth, options.growth_interval, options.backoff));
}

torch::Tensor GradScaler::scaled(const torch::Tensor& loss) const {
  return loss * scale_.to(loss.scalar_type()).squeeze();
}

void GradScaler::unscale(const ParameterArena& arena) const {
  for (std::size_t bucket = 0; bucket < arena.buckets(); ++bucket)
    torch::Tensor(arena.flat_gradients(bucket)).mul_(1 / scale());
}

void GradScaler::update(bool was_finite) {
  update(torch::full({1}, was_finite ? 0 : 1, scale_.options().dtype(torch::kInt)));
}

// A scale that isn't a number of float32 any more would end the training.
void GradScaler::update(const torch::Tensor& left_out) {
  const torch::NoGradGuard no_gradient;
  const auto is_left_out = left_out.ne(0);
  const auto good_steps = good_steps_ + 1;
  const auto is_due = good_steps.ge(options_.growth_interval);
  const auto grown = scale_ * options_.growth;
  const auto grows = is_due.logical_and(grown.to(torch::kFloat).isfinite());
  const auto none = torch::zeros_like(good_steps_);
  scale_.copy_(
      torch::where(is_left_out, scale_ * options_.backoff, torch::where(grows, grown, scale_)));
  good_steps_.copy_(torch::where(is_left_out.logical_or(is_due), none, good_steps));
}

GradScaler::State GradScaler::state() const {
  return {scale_.item<double>(), good_steps_.item<std::int64_t>()};
}

void GradScaler::restore(const State& state) {
  scale_.fill_(state.scale);
  good_steps_.fill_(state.good_steps);
}

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

namespace {

// What a forward pass changes: running statistics. To be put back when its step is left out.
class BufferCopies {
 public:
  explicit BufferCopies(const torch::nn::Module& network) : buffers_(network.buffers()) {
    for (const auto& buffer : buffers_) copies_.push_back(buffer.detach().clone());
  }
  void put_back() const {
    const torch::NoGradGuard no_gradient;
    for (std::size_t i = 0; i < buffers_.size(); ++i) torch::Tensor(buffers_[i]).copy_(copies_[i]);
  }
  // Where one int32 on the buffers' device is not 0.
  void put_back_where(const torch::Tensor& left_out) const {
    const torch::NoGradGuard no_gradient;
    const auto is_left_out = left_out.ne(0).squeeze();
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      torch::Tensor(buffers_[i]).copy_(torch::where(is_left_out, copies_[i], buffers_[i]));
  }

 private:
  std::vector<torch::Tensor> buffers_, copies_;
};

}  // namespace

TrainingStep::TrainingStep(Communicator communicator, std::shared_ptr<torch::nn::Module> network,
                           std::shared_ptr<const FlatOptimizer> optimizer,
                           const TrainingStepOptions& options)
    : communicator_(std::move(communicator)),
      network_(std::move(network)),
      options_(options),
      arena_(std::make_shared<ParameterArena>(communicator_, *network_, options_.buckets)),
      optimizer_(communicator_, arena_, std::move(optimizer),
                 options_.reducer.communicate ? options_.sharing : StepSharing{false}),
      reducer_(communicator_, arena_, options_.reducer),
      finite_check_(communicator_, arena_, {.policy = NonFinite::skip}) {
  if (options_.loss_scale) scaler_.emplace(*options_.loss_scale, arena_->device());
  arena_->broadcast_parameters(communicator_);
  broadcast_outside_arena(communicator_, *network_);
}

TrainingStep::Outcome TrainingStep::make(const std::function<Forward()>& forward,
                                         double learning_rate, std::int64_t step) {
  return end(begin(forward, learning_rate, step));
}

TrainingStep::UnderWay TrainingStep::begin(const std::function<Forward()>& forward,
                                           double learning_rate, std::int64_t step) {
  reducer_.clear_gradients();
  std::optional<BufferCopies> buffers;
  if (may_skip()) buffers.emplace(*network_);
  auto phase = options_.timeline.span("forward");
  const auto [loss, mine] = forward();
  const auto sums =
      mine.defined()
          ? mine.detach().to(arena_->device())
          : torch::empty({0}, torch::TensorOptions(torch::kDouble).device(arena_->device()));
  // Before the gradients on every rank, so in their order: no other thread wakes for it.
  Work summing;
  if (sums.numel() > 0)
    summing =
        arena_->gradient_communicator(communicator_)
            .all_reduce_async(buffer_of(sums), ReduceOp::sum,
                              {.name = "metrics", .owner = std::make_shared<torch::Tensor>(sums)});
  phase = options_.timeline.span("backward");
  (scaler_ ? scaler_->scaled(loss) : loss).backward();
  phase.end();
  UnderWay under_way;
  under_way.step_ = step;
  if (!updates_together()) {
    update(learning_rate, step);
    summing.wait();
    under_way.numbers_.emplace(sums);
  } else if (arena_->device().is_cpu()) {
    summing.wait();
    under_way.known_.sums = LateNumbers(sums).get();
    const auto& numbers = under_way.known_.sums;
    under_way.known_.is_made =
        update_together(learning_rate, step, numbers.empty() ? 0 : numbers.front());
    if (!under_way.known_.is_made) buffers->put_back();
  } else {
    summing.wait();
    const auto left_out = update_on_device(learning_rate, step, sums);
    if (left_out.defined()) buffers->put_back_where(left_out);
    under_way.numbers_.emplace(left_out.defined() ? torch::cat({sums, left_out.to(torch::kDouble)})
                                                  : sums);
  }
  return under_way;
}

TrainingStep::Outcome TrainingStep::end(UnderWay step) {
  if (!step.numbers_) return std::move(step.known_);
  Outcome outcome{step.numbers_->get()};
  if (!may_skip()) return outcome;
  outcome.is_made = outcome.sums.back() == 0;
  outcome.sums.pop_back();
  const double loss = outcome.sums.empty() || !options_.skip_non_finite ? 0 : outcome.sums.front();
  finite_check_.note(step.step_, outcome.is_made, loss);
  return outcome;
}

// Each bucket as soon as it is reduced, while later ones are still on their way.
void TrainingStep::update(double learning_rate, std::int64_t step) {
  const auto& timeline = options_.timeline;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    const auto number = static_cast<std::int64_t>(bucket);
    auto phase = timeline.span("wait for bucket", "bucket", number);
    reducer_.wait(bucket);
    phase = timeline.span("update bucket", "bucket", number);
    optimizer_.update(bucket, learning_rate, step);
  }
  const auto phase = timeline.span("finish step");
  reducer_.finish();
  optimizer_.finish();
}

bool TrainingStep::may_skip() const {
  return options_.skip_non_finite || scaler_;
}

// All buckets at the end, for what must be known of the whole gradient first.
bool TrainingStep::update_together(double learning_rate, std::int64_t step, double loss) {
  auto phase = options_.timeline.span("wait for buckets");
  reducer_.finish();
  phase = options_.timeline.span("update");
  // A scale that is too large shows in gradients only; a loss that is not finite has other reasons.
  const double checked_loss = options_.skip_non_finite ? loss : 0;
  const bool is_finite = !may_skip() || finite_check_.may_step(step, checked_loss);
  if (scaler_) {
    if (is_finite) scaler_->unscale(*arena_);
    scaler_->update(is_finite);
  }
  if (!is_finite) return false;
  if (options_.maximum_norm > 0) reducer_.clip_gradient_norm(options_.maximum_norm);
  update_all(learning_rate, step, {});
  return true;
}

void TrainingStep::update_all(double learning_rate, std::int64_t step, const GradientUse& use) {
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    optimizer_.update(bucket, learning_rate, step, use);
  optimizer_.finish();
}

torch::Tensor TrainingStep::update_on_device(double learning_rate, std::int64_t step,
                                             const torch::Tensor& sums) {
  const torch::NoGradGuard no_gradient;
  auto phase = options_.timeline.span("wait for buckets");
  reducer_.finish();
  phase = options_.timeline.span("update");
  const GradientUse use{factor_on_device(), left_out_on_device(sums)};
  if (scaler_) scaler_->update(use.left_out);
  update_all(learning_rate, step, use);
  return use.left_out;
}

// What one rank sees all are told: gradients that are not all-reduced may differ.
torch::Tensor TrainingStep::left_out_on_device(const torch::Tensor& sums) const {
  if (!may_skip()) return {};
  auto found = torch::zeros({1}, torch::TensorOptions(torch::kInt).device(arena_->device()));
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    parallel::find_non_finite(arena_->flat_gradients(bucket), found);
  if (options_.skip_non_finite && sums.numel() > 0)
    found.logical_or_(sums.narrow(0, 0, 1).isfinite().logical_not());
  if (communicator_.size() > 1)
    arena_->gradient_communicator(communicator_)
        .all_reduce(buffer_of(found), ReduceOp::max, {.name = "finite gradients"});
  return found;
}

// As GradientReducer::clip_gradient_norm() does it, of gradients divided by the loss scale. Not the
// scale: it is of the next step after scaler_->update().
torch::Tensor TrainingStep::factor_on_device() const {
  const auto scale = scaler_ ? scaler_->scale_tensor().reciprocal() : torch::Tensor();
  if (options_.maximum_norm <= 0) return scale;
  const auto options = torch::TensorOptions(torch::kDouble).device(arena_->device());
  const auto squares = torch::zeros({1}, options);
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    parallel::add_squares(arena_->flat_gradients(bucket), squares);
  const auto norm = scaler_ ? squares.sqrt() * scale : squares.sqrt();
  const auto factor = options_.maximum_norm / (norm + 1e-6);
  const auto clipped =
      torch::where(norm.isfinite().logical_and(factor.lt(1)), factor, torch::ones({1}, options));
  return scaler_ ? clipped * scale : clipped;
}

}  // namespace kolo
