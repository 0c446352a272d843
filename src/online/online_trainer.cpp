#include "online/online_trainer.h"

#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/random.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/object_collectives.h"

namespace kolo::online {

namespace {

StepSettings step_options(const OnlineConfig& config) {
  StepSettings options;
  options.shared_step.enabled = config.optimizer.shared_step;
  options.clip_norm = config.training.clip_norm;
  if (config.training.non_finite == OnlineNonFinite::skip) options.non_finite = NonFiniteStep::skip;
  return options;
}

// A loss that depends on all parameters and moves none.
torch::Tensor no_loss(const torch::nn::Module& network) {
  auto loss = torch::zeros({}, torch::kFloat);
  for (const auto& parameter : network.parameters()) {
    if (parameter.requires_grad()) loss = loss + (parameter * 0).sum();
  }
  return loss;
}

// Numbers that the ranks add up in a step, in this order.
enum Sum { loss_sum, failures, arrivals, stored, sums };

}  // namespace

OnlineTrainer::OnlineTrainer(const Communicator& ranks, std::shared_ptr<TensorsNetwork> network,
                             const OnlineConfig& config, TensorsLoss loss)
    : ranks_(ranks),
      network_(std::move(network)),
      loss_(std::move(loss)),
      seed_(config.seed),
      stops_(config.training.non_finite == OnlineNonFinite::stop),
      max_steps_(config.training.max_steps),
      learning_rate_(
          make_learning_rate(config.optimizer, config.training,
                             {.batch_ratio = static_cast<double>(ranks.size()),
                              .schedule = {.total_steps = config.training.max_steps.value_or(1)}})),
      step_(ranks, network_, make_optimizer(config.optimizer, decay_of(config.optimizer)),
            step_options(config)) {
  progress_.loss = std::numeric_limits<double>::quiet_NaN();
  network_->train();
}

bool OnlineTrainer::is_done() const {
  return max_steps_ && progress_.steps >= *max_steps_;
}

OnlineTrainer::Forward OnlineTrainer::forward(const std::function<Samples()>& samples_of,
                                              const SampleCounts& counts,
                                              std::exception_ptr& failure) {
  torch::Tensor loss;
  try {
    const auto samples = samples_of();
    const auto outputs = network_->forward(samples.inputs);
    loss = loss_(outputs, samples.targets, samples.extras);
  } catch (const std::exception&) {
    failure = std::current_exception();
    loss = no_loss(*network_);
  }
  auto numbers = torch::zeros({Sum::sums}, torch::kDouble);
  auto* const values = numbers.data_ptr<double>();
  values[loss_sum] = failure ? 0 : loss.item<double>();
  values[failures] = failure ? 1 : 0;
  values[arrivals] = static_cast<double>(counts.arrivals);
  values[stored] = static_cast<double>(counts.stored);
  return {loss, numbers};
}

namespace {

// In the same class of Error, with the call and the rank.
[[noreturn]] void rethrow_as(const std::exception_ptr& failure, const std::string& where) {
  try {
    std::rethrow_exception(failure);
  } catch (const InputError& error) {
    throw InputError(where + error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();  // LibTorch's go on with stack traces
    throw Error(where + text.substr(0, text.find('\n')));
  }
}

}  // namespace

void OnlineTrainer::step(const std::function<Samples()>& samples, const SampleCounts& counts,
                         const Call& call) {
  const auto number = progress_.steps + 1;
  const double rate = learning_rate_.at(progress_.steps);
  std::exception_ptr failure;
  TrainingStep::Outcome outcome;
  {
    // Dropout's masks depend on seed, rank and step alone, and the program's own random numbers on
    // nothing of it.
    const KeepGenerators random(derive_seed(seed_, static_cast<std::uint32_t>(ranks_.rank()),
                                            static_cast<std::uint64_t>(progress_.steps)));
    step_.begin(number);
    const auto [loss, numbers] = forward(samples, counts, failure);
    step_.backward(loss, numbers);
    outcome = step_.end(step_.finish(rate));
  }
  progress_.steps = number;
  progress_.learning_rate = rate;
  if (!outcome.is_made) ++progress_.skipped;
  progress_.arrivals = std::llround(outcome.sums[arrivals]);
  progress_.stored = std::llround(outcome.sums[stored]);
  const double failed = outcome.sums[failures];
  if (ranks_.size() > failed) progress_.loss = outcome.sums[loss_sum] / (ranks_.size() - failed);
  if (failure) {
    rethrow_as(failure, fmt::format("online: {} on rank {}: step {} failed: ", call.name, call.rank,
                                    number));
  }
  if (failed > 0) {
    throw CommunicationError(
        fmt::format("online: {} on rank {}: step {} failed on {:.0f} other ranks, which say why; "
                    "it was made without them, and all ranks have the same weights",
                    call.name, call.rank, number, failed));
  }
  if (stops_ && !std::isfinite(progress_.loss)) {
    throw Error(fmt::format(
        "online: {} on rank {}: the loss of step {} is {}: the learning rate is too high, or "
        "samples are very large; restore an earlier state, or set training.non_finite: skip",
        call.name, call.rank, number, progress_.loss));
  }
}

namespace {

std::vector<NamedTensor> optimizer_tensors(const std::vector<BucketOptimizer::NamedState>& state) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : state) tensors.push_back({item.name, item.tensor});
  return tensors;
}

}  // namespace

Checkpoint OnlineTrainer::checkpoint() const {
  Checkpoint saved;
  saved.model = module_tensors(*network_);
  saved.optimizer = optimizer_tensors(step_.optimizer().named_state());
  for (const auto& item : module_parameters(*network_)) {
    if (is_finite(item.tensor)) continue;
    throw Error(fmt::format(
        "online: save on rank {}: {} is not finite after step {}, so nothing could go on from it",
        ranks_.rank(), item.name, progress_.steps));
  }
  saved.state["optimizer"] = step_.optimizer().algorithm().name();
  saved.state["steps"] = progress_.steps;
  saved.state["skipped"] = progress_.skipped;
  saved.state["skipped_steps"] = step_.optimizer().skipped_steps();
  saved.state["loss"] = std::isfinite(progress_.loss) ? nlohmann::json(progress_.loss) : nullptr;
  return saved;
}

void OnlineTrainer::require_fitting(const Checkpoint& saved) const {
  require_same_tensors(saved.model, module_tensors(*network_));
  const auto name = saved.state.value("optimizer", std::string("unknown"));
  const auto& mine = step_.optimizer().algorithm();
  if (name == mine.name()) return;
  throw InputError(
      fmt::format("online: restore: it was saved with the optimizer {}, and the "
                  "configuration's is {}",
                  name, mine.name()));
}

void OnlineTrainer::restore(const std::optional<Checkpoint>& of_first) {
  if (of_first) copy_tensors(of_first->model, module_tensors(*network_));
  const auto state =
      nlohmann::json::parse(broadcast_bytes(ranks_, of_first ? of_first->state.dump() : ""));
  step_.arena()->broadcast_parameters(ranks_);
  broadcast_outside_arena(ranks_, *network_);
  step_.optimizer().scatter_state(ranks_,
                                  state.at("skipped_steps").get<std::vector<std::int64_t>>(),
                                  [&](const std::vector<BucketOptimizer::NamedState>& whole) {
                                    copy_tensors(of_first->optimizer, optimizer_tensors(whole));
                                  });
  progress_.steps = state.at("steps").get<std::int64_t>();
  progress_.skipped = state.at("skipped").get<std::int64_t>();
  const auto& loss = state.at("loss");
  progress_.loss = loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>();
}

}  // namespace kolo::online
