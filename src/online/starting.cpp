#include <exception>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "kolo/parallel/broadcast_state.h"
#include "online/host_state.h"
#include "online/inside.h"

// Training in the background: how it begins and ends, and what a time step takes from it.
namespace kolo {

using namespace online;  // NOLINT: what this class is made of

void OnlineNetwork::Inside::start() {
  const auto here = call("start");
  require_computing(here);
  if (config_.training.apart || !config_.training.background) {
    throw StateError(
        fmt::format("online: start on rank {}: the configuration has no "
                    "training.background: true",
                    ranks_.rank()));
  }
  agree(ranks_, here, [&] {
    require_foreground(here);
    if (ranks_.size() == 1 || ranks_.capabilities().concurrent) return;
    throw StateError(fmt::format(
        "online: start on rank {}: a thread beside the program's would call MPI, which grants the "
        "thread level {}; initialize MPI with MPI_THREAD_MULTIPLE, or train in tick() "
        "(training.background: false)",
        ranks_.rank(), ranks_.capabilities().thread_level));
  });
  // From now on the network changes at any time, so others infer with copies.
  inference_->use(std::make_shared<const Weights>(inference_->weights()->copy()));
  taken_ = 0;
  if (!trainer_) return;
  BackgroundTraining::Work work{
      .is_ready = [this] { return store_.batches_left() > 0 && !trainer_->is_done(); },
      .step =
          [this] {
            if (background_steps_ % steps_between_statistics == 0)
              normalizer_.update(*trainers_, store_);
            ++background_steps_;
            trainer_->step([this] { return store_.draw(*normalizer_.now()); }, counts(),
                           call("background training"));
          },
      .snapshot =
          [this] {
            broadcast_outside_arena(*trainers_, *network_);
            auto weights = std::make_shared<Weights>(Weights::of(*network_).copy());
            weights->version = trainer_->progress().steps;
            weights->normalization = normalizer_.now();
            return BackgroundTraining::Publication{std::move(weights), trainer_->progress()};
          }};
  background_ = std::make_unique<BackgroundTraining>(trainers_->with_own_order(), std::move(work),
                                                     openmp_threads());
}

void OnlineNetwork::Inside::pause() {
  const auto here = call("pause");
  require_computing(here);
  agree(ranks_, here, [] {});  // not among the trainers: the thread is in steps of theirs
  std::exception_ptr failure;
  if (background_) {
    background_->stop();
    progress_ = trainer_->progress();
    try {
      background_->rethrow();
    } catch (...) {
      failure = std::current_exception();
    }
    background_.reset();
  }
  agree(ranks_, here, [&] {
    if (failure) std::rethrow_exception(failure);
  });
  publish();
}

// The newest publication that all ranks have; and asks for the next one. So all infer with the
// weights of one version from here to the next tick, and nobody waits for a step.
TickReport OnlineNetwork::Inside::take_newest(std::int64_t time_step) {
  const auto here = call("tick");
  agree(ranks_, here, [&] {
    if (background_) background_->rethrow();
  });
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  const auto newest =
      all_reduce_value(ranks_, background_ ? background_->published() : none, ReduceOp::min);
  if (background_) background_->ask_for_publication();
  if (newest == none || newest == taken_) return report(0);
  taken_ = newest;
  const auto steps_before = progress_.steps;
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
  return report(progress_.steps - steps_before);
}

}  // namespace kolo
