#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/tensor_collectives.h"
#include "online/inside.h"

// Training in the simulation's time steps.
namespace kolo {

using namespace online;  // NOLINT: what this class is made of

TickReport OnlineNetwork::Inside::tick(std::int64_t time_step) {
  const auto here = call("tick");
  require_computing(here);
  time_step_ = time_step;
  if (++ticks_ % config_.training.every != 0) return report(0);
  if (config_.training.apart) {
    (void)refresh();
    return report(0);
  }
  pass_samples(here);
  if (background_ || config_.training.background) return take_newest(time_step);
  const auto plan = plan_steps(ranks_);
  agree_unless_all_train(here, [&] { make_steps(plan.steps, time_step); });
  if (plan.steps > 0) publish();
  require_recorded();
  auto done = report(plan.steps);
  done.waiting_for = plan.waiting_for;
  return done;
}

// Runs local work and, unless all ranks train, agrees on its outcome: errors of a step are on all
// training ranks already.
void OnlineNetwork::Inside::agree_unless_all_train(const Call& call,
                                                   const std::function<void()>& local) {
  if (roles_.are_all) return local();
  agree(ranks_, call, local);
}

TickReport OnlineNetwork::Inside::report(std::int64_t steps) const {
  auto done = progress_;
  done.steps = steps;
  done.version = inference_->weights()->version;
  return done;
}

// `least_negated`: the least of the ranks' time steps with all bits inverted, so of the last one.
void OnlineNetwork::Inside::require_one_time_step(std::int64_t first,
                                                  std::int64_t least_negated) const {
  if (first == ~least_negated) return;
  refuse(call("tick"), "time_step",
         fmt::format("it is {} here, and from {} to {} on the ranks; give all ranks the same",
                     time_step_, first, ~least_negated));
}

// Agrees on the smallest number of steps in one all-reduce.
OnlineNetwork::Inside::Plan OnlineNetwork::Inside::plan_steps(const Communicator& ranks) {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  const auto& training = config_.training;
  enum { possible, not_ready, shape, shape_negated, in_time, now, now_negated, n_numbers };
  std::array<std::int64_t, n_numbers> numbers{};
  numbers.fill(none);
  numbers[now] = time_step_;
  numbers[now_negated] = ~time_step_;
  if (roles_.trains) {
    numbers[possible] = store_.batches_left();
    if (numbers[possible] == 0) numbers[not_ready] = ranks_.rank();
    if (const auto shapes = store_.shapes()) {
      const auto mine = static_cast<std::int64_t>(shapes->fingerprint() >> 2);
      numbers[shape] = mine;
      numbers[shape_negated] = -mine;
    }
    if (training.milliseconds > 0) {
      const double steps = step_seconds_ > 0 ? training.milliseconds * 1e-3 / step_seconds_ : 1;
      numbers[in_time] = static_cast<std::int64_t>(std::clamp(steps, 1.0, 1e6));
    }
    if (training.max_steps) {
      numbers[possible] = std::min(
          numbers[possible], std::max<std::int64_t>(0, *training.max_steps - progress_.all_steps));
    }
  }
  ranks.all_reduce(std::span(numbers), ReduceOp::min, {.name = "steps of a tick"});
  require_one_time_step(numbers[now], numbers[now_negated]);
  if (numbers[shape] != none && numbers[shape] != -numbers[shape_negated]) {
    throw InputError(call("tick").text(
        fmt::format("the ranks' samples have different shapes (here {}); all push the same kind",
                    store_.shapes() ? describe(store_.shapes()->inputs) : "no samples yet")));
  }
  const auto wanted = training.milliseconds > 0 ? numbers[in_time] : training.n_steps;
  return {std::min(wanted, numbers[possible]),
          numbers[not_ready] == none ? -1 : numbers[not_ready]};
}

void OnlineNetwork::Inside::make_steps(std::int64_t steps, std::int64_t time_step) {
  if (!trainer_ || steps == 0) return;
  normalizer_.update(*trainers_, store_, store_.shapes().value());
  const Stopwatch watch;
  for (std::int64_t i = 0; i < steps; ++i)
    step([&] { return store_.draw(*normalizer_.now()); }, call("tick"), time_step);
  step_seconds_ = watch.seconds() / static_cast<double>(steps);
}

void OnlineNetwork::Inside::step(const std::function<Samples()>& samples, const Call& call,
                                 std::int64_t time_step, double weight) {
  {
    const auto lock = inference_->changes();
    trainer_->step(samples, store_.counts(), call, weight);
  }
  progress_ = trainer_->progress();
  record(time_step);
}

// Keeps an error of the disk until the collective work is done, so that no rank waits for this one.
void OnlineNetwork::Inside::record(std::int64_t time_step) {
  if (!recorder_) return;
  try {
    recorder_->add(progress_, time_step);
  } catch (...) {
    record_failure_ = std::current_exception();
  }
}

void OnlineNetwork::Inside::require_recorded() {
  if (record_failure_) std::rethrow_exception(std::exchange(record_failure_, nullptr));
}

double OnlineNetwork::Inside::train(std::span<const Array> inputs, std::span<const Array> targets,
                                    std::span<const Array> extras) {
  const auto here = call("train");
  require_computing(here);
  require_foreground(here);
  if (config_.training.apart)
    throw StateError("online: train: ranks that train apart take their samples from push()");
  std::optional<SampleArguments> arguments;
  agree(ranks_, here, [&] {
    if (!roles_.trains) return;
    arguments.emplace(inputs, targets, extras, config_.training, here);
    require_fitting(*arguments, here);
    measure(*arguments);
  });
  agree_unless_all_train(here, [&] {
    if (!trainer_) return;
    normalizer_.update(*trainers_, store_, arguments->shapes());
    const auto samples = [&] { return tensors_of(*arguments, has_batch(), *normalizer_.now()); };
    // Makes the mean one over all ranks' samples.
    const auto mine = static_cast<double>(arguments->inputs.samples());
    const double all = all_reduce_value(*trainers_, mine, ReduceOp::sum);
    step(samples, here, time_step_, mine * trainers_->size() / all);
  });
  publish();
  require_recorded();
  return progress_.loss;
}

std::shared_ptr<Weights> OnlineNetwork::Inside::live_weights() {
  auto weights = std::make_shared<Weights>(live_);
  weights->version = progress_.all_steps;
  weights->normalization = normalizer_.now();
  return weights;
}

// Publishes the weights. Buffers such as running statistics are those of the first trainer.
void OnlineNetwork::Inside::publish() {
  const auto lock = inference_->changes();
  if (trainers_ && has_tensors_outside_) broadcast_outside_arena(*trainers_, *network_);
  auto weights = live_weights();
  if (!roles_.are_all) hand_over(*weights);
  inference_->use(std::move(weights));
}

// Format: the bytes of the progress, then the normalization.
std::string OnlineNetwork::Inside::description_of(const Weights& weights) const {
  static_assert(std::is_trivially_copyable_v<TickReport>);
  auto progress = progress_;
  progress.version = weights.version;
  return std::string(reinterpret_cast<const char*>(&progress), sizeof(progress)) +
         to_bytes(*weights.normalization);
}

void OnlineNetwork::Inside::take_description(const std::string& text, Weights& weights) {
  std::memcpy(&progress_, text.data(), sizeof(progress_));
  weights.version = progress_.version;
  weights.normalization = std::make_shared<const Normalization>(
      normalization_from(std::string_view(text).substr(sizeof(progress_))));
}

// Broadcasts weights and progress from the first trainer to all ranks, in place.
void OnlineNetwork::Inside::hand_over(Weights& weights) {
  const int first = roles_.trainers.front();
  const auto text = broadcast_bytes(
      ranks_, ranks_.rank() == first ? description_of(weights) : std::string(), first);
  if (!roles_.trains) take_description(text, weights);
  const auto tensors = weights.tensors();
  if (!tensors.empty()) broadcast(ranks_, tensors, first, {.name = "weights"});
}

}  // namespace kolo
