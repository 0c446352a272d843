#include "online/inside.h"

#include <array>
#include <chrono>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/blocked_signals.h"

namespace kolo::online {

BackgroundTraining::BackgroundTraining(const Call& call, const Communicator& ranks,
                                       OnlineTrainer& trainer, SampleStore& store,
                                       Normalizer& normalizer, int threads)
    : call_(call),
      ranks_(ranks),
      meetings_(ranks.with_own_order()),
      trainer_(trainer),
      store_(store),
      normalizer_(normalizer) {
  const BlockedSignals blocked;  // while the thread starts
  thread_ = std::thread([this, threads] { loop(threads); });
}

BackgroundTraining::~BackgroundTraining() {
  stop();
}

void BackgroundTraining::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_asked_to_stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void BackgroundTraining::rethrow() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

std::int64_t BackgroundTraining::ask_for_publication() {
  const std::lock_guard lock(mutex_);
  ++asked_;
  return published_;
}

BackgroundTraining::Publication BackgroundTraining::take(std::int64_t publication) {
  const std::lock_guard lock(mutex_);
  publications_.erase(publications_.begin(), publications_.lower_bound(publication));
  return publications_.at(publication);
}

void BackgroundTraining::loop(int threads) {
  compute_with(threads);
  try {
    while (go_round()) {
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
}

// Lets a rank that fails tell the others to stop in the next meeting, so that none waits for it.
bool BackgroundTraining::go_round() {
  std::exception_ptr failure;
  std::array<std::int64_t, 3> flags{};  // ready, goes on, publications asked for
  try {
    flags[0] = store_.batches_left() > 0 && !trainer_.is_done() ? 1 : 0;
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    flags[1] = !is_asked_to_stop_ && !failure ? 1 : 0;
    flags[2] = asked_;
  }
  meetings_.all_reduce(std::span(flags), ReduceOp::min, {.name = "background training"});
  if (failure) std::rethrow_exception(failure);
  if (flags[1] == 0) return false;
  if (flags[2] > published_) publish();  // this thread alone changes it
  if (flags[0] == 1) {
    step();
  } else {
    // Samples arrive once per time step, which takes longer.
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return true;
}

void BackgroundTraining::step() {
  constexpr std::int64_t steps_between_statistics = 16;
  if (steps_++ % steps_between_statistics == 0)
    normalizer_.update(ranks_, store_, store_.shapes().value());
  trainer_.step([this] { return store_.draw(*normalizer_.now()); }, store_.counts(), call_);
}

// Publishes a copy of the current weights. Collective.
void BackgroundTraining::publish() {
  broadcast_outside_arena(ranks_, trainer_.network());
  auto weights = std::make_shared<Weights>(Weights::of(trainer_.network()).copy());
  weights->version = trainer_.progress().all_steps;
  weights->normalization = normalizer_.now();
  const std::lock_guard lock(mutex_);
  publications_.emplace(++published_, Publication{std::move(weights), trainer_.progress()});
}

}  // namespace kolo::online

// Start and end of background training, and the weights that a time step takes from it.

namespace kolo {

using namespace online;  // NOLINT: what this class is made of

void OnlineNetwork::Inside::start() {
  const auto here = call("start");
  require_computing(here);
  if (config_.training.apart || !config_.training.background) {
    throw StateError(here.text("the configuration has no training.background: true"));
  }
  agree(ranks_, here, [&] {
    require_foreground(here);
    if (ranks_.size() == 1 || ranks_.capabilities().concurrent) return;
    throw StateError(here.text(fmt::format(
        "a thread beside the program's would call MPI, which grants the thread level {}; "
        "initialize MPI with MPI_THREAD_MULTIPLE, or train in tick() (training.background: false)",
        ranks_.capabilities().thread_level)));
  });
  // The network may change at any time from now on, so infer() uses copies.
  inference_->use(std::make_shared<const Weights>(inference_->weights()->copy()));
  taken_ = 0;
  if (!trainer_) return;
  background_ = std::make_unique<BackgroundTraining>(
      call("background training"), *trainers_, *trainer_, store_, normalizer_, openmp_threads());
}

void OnlineNetwork::Inside::pause() {
  const auto here = call("pause");
  require_computing(here);
  agree(ranks_, here, [] {});  // not among the trainers: the thread is in steps of theirs
  const auto background = std::move(background_);
  agree(ranks_, here, [&] {
    if (!background) return;
    background->stop();
    progress_ = trainer_->progress();
    background->rethrow();
  });
  publish();
}

// Takes the newest publication that all ranks have, and asks for the next one. So all ranks infer
// with one version until the next tick, and none waits for a step.
TickReport OnlineNetwork::Inside::take_newest(std::int64_t time_step) {
  const auto here = call("tick");
  agree(ranks_, here, [&] {
    if (background_) background_->rethrow();
  });
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::array<std::int64_t, 3> numbers = {background_ ? background_->ask_for_publication() : none,
                                         time_step, ~time_step};
  ranks_.all_reduce(std::span(numbers), ReduceOp::min, {.name = "weights of a tick"});
  require_one_time_step(numbers[1], numbers[2]);
  const auto newest = numbers[0];
  if (newest == none || newest == taken_) return report(0);
  taken_ = newest;
  const auto steps_before = progress_.all_steps;
  std::shared_ptr<const Weights> weights;
  if (background_) {
    auto publication = background_->take(newest);
    weights = std::move(publication.weights);
    progress_ = publication.progress;
  }
  if (!roles_.are_all) {
    auto own = std::make_shared<Weights>(weights ? *weights : Weights::of(*network_).copy());
    hand_over(*own);
    weights = std::move(own);
  }
  inference_->use(weights);
  record(time_step);
  require_recorded();
  return report(progress_.all_steps - steps_before);
}

}  // namespace kolo
