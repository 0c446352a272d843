#include "kolo/parallel/training_step.h"

#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/broadcast_state.h"

namespace kolo {

GradScaler::GradScaler(const LossScaleOptions& options)
    : options_(options), state_{options.initial, 0} {
  const auto is_positive = [](double number) { return number > 0 && std::isfinite(number); };
  if (is_positive(options.initial) && is_positive(options.growth) && options.growth >= 1 &&
      is_positive(options.backoff) && options.backoff <= 1 && options.growth_interval >= 1)
    return;
  throw InputError(fmt::format(
      "loss scale: initial {}, growth {} after {} steps, backoff {}; expected numbers above 0, the "
      "growth at least 1, the backoff at most 1",
      options.initial, options.growth, options.growth_interval, options.backoff));
}

void GradScaler::unscale(const ParameterArena& arena) const {
  for (std::size_t bucket = 0; bucket < arena.buckets(); ++bucket)
    torch::Tensor(arena.flat_gradients(bucket)).mul_(1 / scale());
}

void GradScaler::update(bool was_finite) {
  if (!was_finite) {
    state_ = {state_.scale * options_.backoff, 0};
    return;
  }
  if (++state_.good_steps < options_.growth_interval) return;
  state_.good_steps = 0;
  // A scale that isn't a number of float32 any more would end the training.
  const double grown = state_.scale * options_.growth;
  if (std::isfinite(static_cast<float>(grown))) state_.scale = grown;
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
  if (options_.loss_scale) scaler_.emplace(*options_.loss_scale);
  arena_->broadcast_parameters(communicator_);
  broadcast_outside_arena(communicator_, *network_);
}

TrainingStep::Outcome TrainingStep::make(const std::function<Forward()>& forward,
                                         double learning_rate, std::int64_t step) {
  reducer_.clear_gradients();
  std::optional<BufferCopies> buffers;
  if (may_skip()) buffers.emplace(*network_);
  auto phase = options_.timeline.span("forward");
  auto [loss, mine] = forward();
  const auto sums = std::make_shared<std::vector<double>>(std::move(mine));
  // Before the gradients on every rank, so in their order: no other thread wakes for it.
  const Work summing =
      arena_->gradient_communicator(communicator_)
          .all_reduce_async(std::span(*sums), ReduceOp::sum, {.name = "metrics", .owner = sums});
  phase = options_.timeline.span("backward");
  (scaler_ ? scaler_->scaled(loss) : loss).backward();
  phase.end();
  bool is_made = true;
  if (options_.maximum_norm > 0 || may_skip()) {
    summing.wait();
    is_made = update_together(learning_rate, step, sums->empty() ? 0 : sums->front());
  } else {
    update(learning_rate, step);
    summing.wait();
  }
  if (!is_made) buffers->put_back();
  return {std::move(*sums), is_made};
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
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    optimizer_.update(bucket, learning_rate, step);
  optimizer_.finish();
  return true;
}

}  // namespace kolo
