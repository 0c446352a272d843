#include "kolo/train/trainer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/object_collectives.h"
#include "train/batches.h"

// The loop; what goes into a checkpoint and comes out of it is in trainer_checkpoint.cpp.
namespace kolo {

namespace {

// Drops the sign that NaN may have: messages say "nan", not "-nan".
double shown(double loss) {
  return std::isnan(loss) ? std::abs(loss) : loss;
}

void require_finite(const MetricSums& sums, std::int64_t step) {
  if (std::isfinite(sums.loss)) return;
  throw Error(fmt::format(
      "train: the loss of step {} is {}. Usual reasons: a learning rate that is too high, or "
      "samples that aren't finite (kolo data inspect counts them). {}",
      step, shown(sums.loss), advice_on_what_is_not_finite()));
}

// Copies through pinned memory, so that the host doesn't wait; LibTorch reuses that memory only
// after the copy.
torch::Tensor copied(const torch::Tensor& tensor, const torch::Device& device) {
  if (tensor.device() == device) return tensor;
  const bool is_cuda = device.is_cuda();
  return (is_cuda ? tensor.pin_memory() : tensor).to(device, /*non_blocking=*/is_cuda);
}

StepSettings step_settings(const TrainerOptions& options, const TrainedNetwork& network,
                           const Communicator& all) {
  auto settings = static_cast<const StepSettings&>(options);
  if (network.parts() != nullptr) settings.world = all;
  return settings;
}

}  // namespace

bool TrainerOptions::ends_with_steps(std::int64_t steps_of_epoch) const {
  return max_steps && *max_steps < checked_multiply(n_epochs, steps_of_epoch);
}

Trainer::Trainer(Communicator communicator, std::shared_ptr<Network> network, Objective objective,
                 std::shared_ptr<const FlatOptimizer> optimizer, LearningRate learning_rate,
                 Loader& training, Loader& validation, TrainerOptions options)
    : Trainer(communicator,
              make_whole_network(communicator, std::move(network), std::move(objective), options),
              std::move(optimizer), std::move(learning_rate), training, validation, options) {}

Trainer::Trainer(Communicator communicator, std::shared_ptr<TrainedNetwork> network,
                 std::shared_ptr<const FlatOptimizer> optimizer, LearningRate learning_rate,
                 Loader& training, Loader& validation, TrainerOptions options)
    : communicator_(std::move(communicator)),
      network_(std::move(network)),
      learning_rate_(std::move(learning_rate)),
      training_(training),
      validation_(validation),
      options_(std::move(options)),
      step_(network_->replicas(), network_->module(), std::move(optimizer),
            step_settings(options_, *network_, communicator_)),
      clock_(step_.arena()->device()),
      step_notes_(
          torch::zeros({1}, torch::TensorOptions(torch::kDouble).device(step_.arena()->device()))),
      warmup_{learning_rate_.warmup_steps(), training.batches()} {
  training_.deliver_to(step_.arena()->device());
  if (options_.check_replicas_every > 0)
    replica_check_.emplace(network_->replicas(), *step_.arena(), options_.check_replicas_every);
}

template <typename Hook>
void Trainer::notify(const Hook& hook) {
  for (Observer* const observer : observers_) hook(*observer);
}

TrainOutcome Trainer::run() {
  std::optional<MetricSums> untrained;
  // A run that was stopped amid this validation goes on with it.
  if (state_.step == 0 && !state_.is_validated) {
    untrained = validate();
    if (!untrained) return stop();
    require_finite_validation(*untrained, false);
    state_.is_validated = true;
  }
  since_counted_.restart();
  notify([&](Observer& observer) { observer.on_start(state_, untrained); });
  while (state_.epoch < options_.n_epochs && !is_out_of_patience() && !is_out_of_steps()) {
    if (state_.epoch >= options_.stop_after_epochs.value_or(options_.n_epochs)) return stop();
    if (train_epoch() == TrainOutcome::stopped) return stop();
  }
  notify([&](Observer& observer) { observer.on_finish(state_); });
  return TrainOutcome::finished;
}

TrainOutcome Trainer::stop() {
  notify([&](Observer& observer) { observer.on_stop(state_); });
  return TrainOutcome::stopped;
}

bool Trainer::is_out_of_patience() const {
  return options_.early_stopping_patience > 0 &&
         state_.epoch - state_.best_epoch >= options_.early_stopping_patience;
}

bool Trainer::is_out_of_steps() const {
  return options_.max_steps && state_.step >= *options_.max_steps;
}

TrainOutcome Trainer::train_epoch() {
  const auto whole = training_.batches(), done = whole - training_.batches(state_.position);
  const auto steps =
      options_.max_steps ? std::min(whole, done + *options_.max_steps - state_.step) : whole;
  notify([&](Observer& observer) { observer.on_epoch_begin(state_, steps, done); });
  network_->module()->train();
  training_.start_epoch(state_.epoch, state_.position);
  data_wait_ = {};
  step_.reducer().reset_statistics();
  since_settled_.restart();
  Stopwatch watch;
  bool is_stop_requested = false;
  while (const auto batch = next_batch()) {
    is_stop_requested = train_step(*batch);
    state_.epoch_seconds += watch.seconds();
    watch.restart();
    if (is_out_of_steps()) break;
    // The last step of an epoch goes on to its end: a stop there would only repeat the validation.
    if (is_stop_requested && training_.batches(state_.position) > 0) break;
  }
  is_stop_requested = settle() || is_stop_requested;
  state_.epoch_seconds += watch.seconds();
  if (is_stop_requested && !is_out_of_steps() && training_.batches(state_.position) > 0)
    return TrainOutcome::stopped;
  if (!finish_epoch(data_wait_.seconds())) return TrainOutcome::stopped;
  const bool is_last = state_.epoch == options_.n_epochs || is_out_of_steps();
  return is_stop_requested && !is_last ? TrainOutcome::stopped : TrainOutcome::finished;
}

std::optional<Batch> Trainer::next_batch() {
  const auto span = options_.timeline.span("data wait");
  auto begin = clock_.now();
  auto batch = in_phase("the copy of a batch", device(), [&] { return training_.next(); });
  data_wait_.add(std::move(begin), clock_.now());
  return batch;
}

void Trainer::step(const Batch& batch) {
  if (!under_way_) since_settled_.restart();  // the time before is the caller's
  network_->module()->train();
  auto here = batch;
  here.input = copied(batch.input, device());
  here.target = copied(batch.target, device());
  (void)train_step(here);
}

// On a device the numbers of the step before are there while it works on this one.
bool Trainer::train_step(const Batch& batch) {
  const auto span = options_.timeline.step(state_.step + 1);
  if (const bool asks = options_.stop_requested(); asks != asks_to_stop_) {
    step_notes_[0].fill_(asks ? 1 : 0);
    asks_to_stop_ = asks;
  }
  const double rate = rate_at(state_.step);
  auto begun = network_->make(step_, {batch, step_notes_, rate, state_.step + 1});
  ++state_.step;
  state_.position = batch.position;
  auto before =
      std::exchange(under_way_, StepUnderWay{std::move(begun), state_.step, state_.position, rate});
  bool is_stop_requested = before && settle(*std::move(before));
  const bool settles = device().is_cpu() || is_due(state_.step, options_.settle_every) ||
                       is_due(state_.step, options_.check_replicas_every);
  if (settles) is_stop_requested = settle() || is_stop_requested;
  return is_stop_requested;
}

bool Trainer::settle() {
  return under_way_ && settle(*std::exchange(under_way_, std::nullopt));
}

bool Trainer::settle(StepUnderWay step) {
  const auto [numbers, is_made] = step_.end(std::move(step.step));
  const auto sums = metrics_of(numbers);
  if (is_made && options_.non_finite == NonFiniteStep::stop) require_finite(sums, step.number);
  if (replica_check_) replica_check_->after_step(step.number);
  if (!is_made) {
    ++state_.skipped_steps;
    ++state_.skipped_in_epoch;
  }
  // A step left out for its gradients alone has a loss like others.
  if (is_made || std::isfinite(sums.loss)) state_.sums.add(sums);
  count_seconds();
  TrainState state = state_;
  state.step = step.number;
  state.position = step.position;
  const StepReport report{state, sums, step.learning_rate, since_settled_.seconds()};
  since_settled_.restart();
  notify([&](Observer& observer) { observer.on_step(report); });
  return numbers[metric_numbers] > 0;
}

double Trainer::rate_at(std::int64_t step) const {
  return learning_rate_.at(std::max<std::int64_t>(step + schedule_ahead_, 0));
}

// All ranks are asked, also where their parameters are the same, because one that isn't like the
// others must not go on by itself. Collective.
void Trainer::require_finite_parameters() const {
  bool finite = true;
  const auto& arena = *step_.arena();
  for (std::size_t bucket = 0; finite && bucket < arena.buckets(); ++bucket)
    finite = is_finite(arena.flat_parameters(bucket));
  if (all_reduce_value(communicator_, std::int32_t{finite ? 1 : 0}, ReduceOp::min) == 1) return;
  refuse_network("the network's parameters are not finite",
                 options_.non_finite != NonFiniteStep::skip);
}

// The parameters are finite. Before training, outputs that are too large may become smaller.
void Trainer::require_finite_validation(const MetricSums& validation, bool is_trained) {
  if (options_.non_finite == NonFiniteStep::ignore) return;
  if (validation.samples == 0 || std::isfinite(validation.mean_loss())) return;
  const auto problem = fmt::format("the validation loss is {}", shown(validation.mean_loss()));
  const auto sample = describe_not_finite_sample(communicator_, validation_);
  if (!sample.empty()) {
    throw Error(fmt::format(
        "train: {}{}, because {} of the validation data is not finite (kolo data inspect counts "
        "such numbers). Take it out, or go on nevertheless with training.non_finite=ignore",
        problem, is_trained ? fmt::format(" after step {}", state_.step) : " before training",
        sample));
  }
  // Steps that are not finite are not the reason: each of the epoch's was, or was left out.
  if (is_trained) refuse_network(problem + " (its samples and the weights are finite)", false);
}

void Trainer::refuse_network(const std::string& problem, bool may_skip) const {
  throw Error(
      fmt::format("train: {} after step {}, the last of epoch {}. The network is not saved. {}",
                  problem, state_.step, state_.epoch + 1, advice_on_what_is_not_finite(may_skip)));
}

bool Trainer::finish_epoch(double data_wait_seconds) {
  require_finite_parameters();
  EpochReport report{state_, state_.sums, {}};
  report.top = network_->objective().top;
  report.learning_rate = rate_at(state_.step - 1);
  report.seconds = state_.epoch_seconds;
  report.data_wait_seconds = data_wait_seconds;
  report.exposed_communication_seconds = step_.reducer().statistics().exposed_seconds;
  if (step_.scaler()) report.loss_scale = step_.scaler()->scale();
  report.skipped_steps = state_.skipped_in_epoch;
  const auto validation = in_phase("validation", device(), [&] { return validate(); });
  if (!validation) return false;
  report.validation = *validation;
  report.device_memory = memory_use(device());
  require_finite_validation(*validation, true);
  ++state_.epoch;
  state_.position = 0;
  state_.sums = {};
  state_.skipped_in_epoch = 0;
  state_.epoch_seconds = 0;
  report.is_best = note_if_best(*validation);
  count_seconds();
  notify([&](Observer& observer) { observer.on_epoch_end(report); });
  return true;
}

void Trainer::count_seconds() {
  state_.seconds += since_counted_.seconds();
  since_counted_.restart();
}

bool Trainer::note_if_best(const MetricSums& validation) {
  if (validation.samples == 0 || !std::isfinite(validation.mean_loss())) return false;
  const bool is_best = validation.has_accuracy() ? validation.accuracy() > state_.best_accuracy
                                                 : validation.mean_loss() < state_.best_loss;
  if (!is_best) return false;
  if (validation.has_accuracy())
    state_.best_accuracy = validation.accuracy();
  else
    state_.best_loss = validation.mean_loss();
  state_.best_epoch = state_.epoch;
  return true;
}

std::optional<MetricSums> Trainer::validate() {
  return evaluate(validation_, options_.stop_validation_requested);
}

MetricSums Trainer::evaluate(Loader& loader) {
  return evaluate(loader, {}).value();
}

// Batch norm's running statistics are each rank's own while it trains; the validation, and a run
// that goes on from a checkpoint, have those of the first of the ranks that have the same.
std::optional<MetricSums> Trainer::evaluate(Loader& loader,
                                            const std::function<bool()>& stop_requested) {
  const auto span = options_.timeline.span("validation");
  auto& module = *network_->module();
  broadcast_outside_arena(step_.replicas(), module);
  const auto progress = [&](std::int64_t done, std::int64_t batches) {
    notify([&](Observer& observer) { observer.on_validation(done, batches); });
  };
  const auto sums_of = [&](const Batch& batch) { return network_->measure(batch); };
  step_.to_evaluation();
  const auto sums = evaluate_batches(communicator_, module, loader,
                                     {sums_of, stop_requested, progress, options_.virtual_ranks});
  step_.to_training();
  return sums;
}

}  // namespace kolo
