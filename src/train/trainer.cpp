#include "kolo/train/trainer.h"

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"
#include "kolo/nn/metrics.h"

// The loop; what goes into a checkpoint and comes out of it is in trainer_checkpoint.cpp.
namespace kolo {

namespace {

// What the ranks add up once a step, on its way while backward runs.
struct StepSums {
  std::array<double, 4> values{};  // loss, correct, samples, requests to stop

  [[nodiscard]] MetricSums metrics() const { return {values[0], values[1], values[2]}; }
  [[nodiscard]] bool is_stop_requested() const { return values[3] > 0; }
};

MetricSums sums_of(const torch::Tensor& loss, const torch::Tensor& outputs,
                   const torch::Tensor& targets) {
  const auto samples = static_cast<double>(targets.size(0));
  return {loss.item<double>() * samples, static_cast<double>(count_correct(outputs, targets)),
          samples};
}

}  // namespace

Trainer::Trainer(Communicator communicator, std::shared_ptr<Network> network, LossFunction loss,
                 std::shared_ptr<const FlatOptimizer> optimizer, LearningRate learning_rate,
                 Loader& training, Loader& validation, TrainerOptions options)
    : communicator_(std::move(communicator)),
      network_(std::move(network)),
      loss_(std::move(loss)),
      learning_rate_(learning_rate),
      training_(training),
      validation_(validation),
      options_(std::move(options)),
      arena_(std::make_shared<ParameterArena>(communicator_, *network_, options_.buckets)),
      optimizer_(arena_, std::move(optimizer)),
      reducer_(communicator_, arena_, options_.reducer) {
  arena_->broadcast_parameters(communicator_);
  broadcast_outside_arena(communicator_, *network_);
}

template <typename Hook>
void Trainer::notify(const Hook& hook) {
  for (Observer* const observer : observers_) hook(*observer);
}

TrainOutcome Trainer::run() {
  std::optional<MetricSums> untrained;
  if (!is_resumed_) untrained = evaluate(validation_);
  notify([&](Observer& observer) { observer.on_start(state_, untrained); });
  while (state_.epoch < options_.epochs) {
    if (train_epoch() == TrainOutcome::stopped) {
      notify([&](Observer& observer) { observer.on_stop(state_); });
      return TrainOutcome::stopped;
    }
  }
  notify([&](Observer& observer) { observer.on_finish(state_); });
  return TrainOutcome::finished;
}

TrainOutcome Trainer::train_epoch() {
  const auto steps = training_.batches();
  const auto remaining = training_.batches(state_.position);
  notify([&](Observer& observer) { observer.on_epoch_begin(state_, steps, steps - remaining); });
  network_->train();
  training_.start_epoch(state_.epoch, state_.position);
  training_.reset_wait();
  reducer_.reset_statistics();
  Stopwatch watch;
  while (const auto batch = next_batch()) {
    const bool is_stop_requested = train_step(*batch);
    state_.epoch_seconds += watch.seconds();
    watch.restart();
    // The last step of an epoch goes on to its end: a stop there would only repeat the validation.
    if (is_stop_requested && training_.batches(state_.position) > 0) return TrainOutcome::stopped;
  }
  finish_epoch(training_.wait_seconds());
  return TrainOutcome::finished;
}

std::optional<Batch> Trainer::next_batch() {
  const auto span = options_.timeline.span("data wait");
  return training_.next();
}

bool Trainer::train_step(const Batch& batch) {
  const Stopwatch watch;
  const auto step = options_.timeline.step(state_.step + 1);
  seed_step();
  reducer_.clear_gradients();
  auto phase = options_.timeline.span("forward");
  const torch::Tensor outputs = network_->forward(batch.input);
  const torch::Tensor loss = loss_(outputs, batch.target);
  const MetricSums mine = sums_of(loss, outputs, batch.target);
  const auto sums = std::make_shared<StepSums>();
  sums->values = {mine.loss, mine.correct, mine.samples, options_.stop_requested() ? 1.0 : 0.0};
  const Work summing = communicator_.all_reduce_async(std::span(sums->values), ReduceOp::sum,
                                                      {.name = "metrics", .owner = sums});
  phase = options_.timeline.span("backward");
  loss.backward();
  phase.end();
  const double rate = learning_rate_.at(state_.step);
  update_parameters(rate);
  summing.wait();
  ++state_.step;
  state_.position = batch.position;
  state_.sums.add(sums->metrics());
  const StepReport report{state_, sums->metrics(), rate, watch.seconds()};
  notify([&](Observer& observer) { observer.on_step(report); });
  return sums->is_stop_requested();
}

// Each bucket as soon as it is reduced, while later ones are still on their way.
void Trainer::update_parameters(double rate) {
  const auto& timeline = options_.timeline;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    const auto number = static_cast<std::int64_t>(bucket);
    auto phase = timeline.span("wait for bucket", "bucket", number);
    reducer_.wait(bucket);
    phase = timeline.span("update bucket", "bucket", number);
    optimizer_.update(bucket, rate, state_.step + 1);
  }
  reducer_.finish();
}

// A step's dropout masks depend on nothing that came before, so a resumed run draws the same ones
// and no generator state is saved.
void Trainer::seed_step() const {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(derive_seed(options_.seed,
                                         static_cast<std::uint32_t>(communicator_.rank()),
                                         static_cast<std::uint64_t>(state_.step)));
}

void Trainer::finish_epoch(double data_wait_seconds) {
  EpochReport report{state_, state_.sums, std::nullopt};
  report.learning_rate = learning_rate_.at(std::max<std::int64_t>(state_.step - 1, 0));
  report.seconds = state_.epoch_seconds;
  report.data_wait_seconds = data_wait_seconds;
  report.exposed_communication_seconds = reducer_.statistics().exposed_seconds;
  report.validation = evaluate(validation_);
  ++state_.epoch;
  state_.position = 0;
  state_.sums = {};
  state_.epoch_seconds = 0;
  if (report.validation->samples > 0 && report.validation->accuracy() > state_.best_accuracy) {
    state_.best_accuracy = report.validation->accuracy();
    state_.best_epoch = state_.epoch;
    report.is_best = true;
  }
  notify([&](Observer& observer) { observer.on_epoch_end(report); });
}

MetricSums Trainer::evaluate(Loader& loader) {
  const auto span = options_.timeline.span("validation");
  const torch::NoGradGuard no_gradient;
  network_->eval();
  MetricSums sums;
  loader.start_epoch(0);
  while (const auto batch = loader.next()) {
    const torch::Tensor outputs = network_->forward(batch->input);
    sums.add(sums_of(loss_(outputs, batch->target), outputs, batch->target));
  }
  std::array<double, 3> values{sums.loss, sums.correct, sums.samples};
  communicator_.all_reduce(std::span(values));
  network_->train();
  return {values[0], values[1], values[2]};
}

}  // namespace kolo
