#include "online/online_trainer.h"

#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/random.h"
#include "kolo/base/text.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/object_collectives.h"

namespace kolo::online {

namespace {

StepSettings step_options(const OnlineConfig& config) {
  StepSettings options;
  options.shared_step.enabled = config.optimizer.shared_step;
  options.clip_norm = config.training.clip_norm;
  options.non_finite = config.training.non_finite;
  return options;
}

// Loss with zero gradients for all parameters, of a rank whose forward pass has failed.
torch::Tensor no_loss(const torch::nn::Module& network) {
  auto loss = torch::zeros({}, torch::kFloat);
  for (const auto& parameter : network.parameters()) {
    if (parameter.requires_grad()) loss = loss + (parameter * 0).sum();
  }
  return loss;
}

// Indices of the numbers that a step sums over the ranks.
enum Sum { loss_sum, weights, failures, arrivals, stored, sums };

}  // namespace

OnlineTrainer::OnlineTrainer(const Communicator& ranks, std::shared_ptr<TensorsNetwork> network,
                             const OnlineConfig& config, TensorsLoss loss)
    : ranks_(ranks),
      network_(std::move(network)),
      loss_(std::move(loss)),
      seed_(config.seed),
      stops_(config.training.non_finite == NonFiniteStep::stop),
      max_steps_(config.training.max_steps),
      learning_rate_(
          make_learning_rate(config.optimizer, config.training,
                             {.batch_ratio = static_cast<double>(ranks.size()),
                              .schedule = {.total_steps = config.training.max_steps.value_or(1)}})),
      step_(ranks, network_, make_optimizer(config.optimizer, decay_of(config.optimizer)),
            step_options(config)) {
  network_->train();
}

bool OnlineTrainer::is_done() const {
  return max_steps_ && progress_.all_steps >= *max_steps_;
}

namespace {

// Rethrows with `where` before the message, in the same class of Error.
[[noreturn]] void rethrow_as(const std::exception_ptr& failure, const std::string& where) {
  try {
    std::rethrow_exception(failure);
  } catch (const InputError& error) {
    throw InputError(where + error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(where + first_line_of(error.what()));
  }
}

}  // namespace

void OnlineTrainer::step(const std::function<Samples()>& samples, const SampleCounts& counts,
                         const Call& call, double weight) {
  const auto number = progress_.all_steps + 1;
  const double rate = learning_rate_.at(progress_.all_steps);
  std::exception_ptr failure;
  TrainingStep::Outcome outcome;
  {
    // Dropout's masks depend on seed, rank and step alone; the program's generators are kept.
    const KeepGenerators random(derive_seed(seed_, static_cast<std::uint32_t>(ranks_.rank()),
                                            static_cast<std::uint64_t>(progress_.all_steps)));
    step_.begin(number);
    torch::Tensor loss;
    try {
      const auto [inputs, targets, extras] = samples();
      loss = loss_(network_->forward(inputs), targets, extras);
    } catch (const std::exception&) {
      failure = std::current_exception();
      loss = no_loss(*network_);
    }
    auto numbers = torch::zeros({Sum::sums}, torch::kDouble);
    auto* const values = numbers.data_ptr<double>();
    values[loss_sum] = failure ? 0 : weight * loss.item<double>();
    values[weights] = failure ? 0 : weight;
    values[failures] = failure ? 1 : 0;
    values[arrivals] = static_cast<double>(counts.arrivals);
    values[stored] = static_cast<double>(counts.stored);
    step_.backward(loss, numbers, weight);
    outcome = step_.end(step_.finish(rate));
  }
  progress_.all_steps = number;
  progress_.learning_rate = rate;
  if (!outcome.is_made) ++progress_.skipped;
  progress_.arrivals = std::llround(outcome.sums[arrivals]);
  progress_.stored = std::llround(outcome.sums[stored]);
  const double failed = outcome.sums[failures];
  if (ranks_.size() > failed) progress_.loss = outcome.sums[loss_sum] / outcome.sums[weights];
  if (failure) {
    rethrow_as(failure, call.text(fmt::format("step {} failed: ", number)));
  }
  if (failed > 0) {
    throw CommunicationError(call.text(
        fmt::format("step {} failed on {:.0f} other ranks, which say why; it was made with zeros "
                    "in place of their gradients, and all ranks have the same weights",
                    number, failed)));
  }
  if (stops_ && !std::isfinite(progress_.loss)) {
    throw Error(call.text(fmt::format(
        "the loss of step {} is {}: the learning rate is too high, or samples are very large; "
        "restore an earlier state, or set training.non_finite: skip",
        number, progress_.loss)));
  }
}

Checkpoint OnlineTrainer::checkpoint() const {
  Checkpoint saved;
  saved.model = module_tensors(*network_);
  saved.optimizer = step_.optimizer().named_state();
  for (const auto& item : module_parameters(*network_)) {
    if (is_finite(item.tensor)) continue;
    throw Error(fmt::format(
        "online: save on rank {}: {} is not finite after step {}, so nothing could go on from it",
        ranks_.rank(), item.name, progress_.all_steps));
  }
  saved.state["optimizer"] = step_.optimizer().algorithm().name();
  saved.state["steps"] = progress_.all_steps;
  saved.state["skipped"] = progress_.skipped;
  saved.state["skipped_steps"] = step_.optimizer().skipped_steps();
  saved.state["loss"] = std::isfinite(progress_.loss) ? nlohmann::json(progress_.loss) : nullptr;
  return saved;
}

void OnlineTrainer::require_fitting(const Checkpoint& saved) const {
  require_same_tensors(saved.model, module_tensors(*network_));
  const auto name = saved.state.value("optimizer", std::string("unknown"));
  const auto& mine = step_.optimizer().algorithm();
  if (name != mine.name()) {
    throw InputError(
        fmt::format("online: restore: it was saved with the optimizer {}, and the "
                    "configuration's is {}",
                    name, mine.name()));
  }
  for (const auto& item : step_.optimizer().named_state())
    (void)saved_tensor(saved.optimizer, item.name, item.tensor.sizes());
}

void OnlineTrainer::restore(const std::optional<Checkpoint>& of_first) {
  if (of_first) copy_tensors(of_first->model, module_tensors(*network_));
  const auto state =
      nlohmann::json::parse(broadcast_bytes(ranks_, of_first ? of_first->state.dump() : ""));
  const auto replicas = step_.replicas();
  step_.arena()->broadcast_parameters(replicas);
  broadcast_outside_arena(replicas, *network_);
  step_.optimizer().scatter_state(
      replicas, state.at("skipped_steps").get<std::vector<std::int64_t>>(),
      [&](const std::vector<NamedTensor>& whole) { copy_tensors(of_first->optimizer, whole); });
  progress_.all_steps = state.at("steps").get<std::int64_t>();
  progress_.skipped = state.at("skipped").get<std::int64_t>();
  const auto& loss = state.at("loss");
  progress_.loss = loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>();
}

TrainingRecorder::TrainingRecorder(const OnlineConfig& config, int ranks)
    : folder_(config.output_dir),
      every_(config.training.log_every),
      ranks_(ranks),
      batch_size_(narrow<int>(config.training.batch_size)),
      history_(ranks) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw InputError(fmt::format("online: output_dir: the folder {} can't be made: {}",
                                 folder_.string(), error.message()));
  }
  events_ = std::make_unique<TensorBoardWriter>(folder_);
}

TrainingRecorder::~TrainingRecorder() {
  try {
    flush();
  } catch (const std::exception&) {
    // A full disk, for instance; save() reports it.
  }
}

void TrainingRecorder::add(const TickReport& progress, std::int64_t time_step) {
  if (!events_ || every_ == 0) return;
  if (std::isfinite(progress.loss)) {
    loss_ += progress.loss;
    ++steps_;
  }
  // In the background `progress` is that of a publication, some steps after the last.
  if (progress.all_steps / every_ <= last_recorded_ / every_) return;
  const auto made = progress.all_steps - std::exchange(last_recorded_, progress.all_steps);
  const double seconds = since_record_.seconds();
  since_record_.restart();
  StepRecord record;
  record.step = progress.all_steps;
  if (steps_ > 0) record.loss = loss_ / static_cast<double>(steps_);
  record.lr = progress.learning_rate;
  record.samples_per_second = static_cast<double>(made) * batch_size_ * ranks_ / seconds;
  record.time = wall_time();
  loss_ = 0;
  steps_ = 0;
  history_.add(record);
  events_->add_scalar("loss/train", record.loss, progress.all_steps);
  events_->add_scalar("lr", record.lr, progress.all_steps);
  events_->add_scalar("samples_per_second", record.samples_per_second, progress.all_steps);
  events_->add_scalar("samples/arrived", static_cast<double>(progress.arrivals),
                      progress.all_steps);
  events_->add_scalar("samples/stored", static_cast<double>(progress.stored), progress.all_steps);
  events_->add_scalar("time_step", static_cast<double>(time_step), progress.all_steps);
  // Writing the whole file takes longer than a step of a small network.
  constexpr double least_pause = 5;
  if (since_flush_.seconds() > least_pause) flush();
}

void TrainingRecorder::add_value(std::string_view name, std::int64_t step, double value) {
  if (events_) events_->add_scalar(name, value, step);
}

// Renames the history of another training instead of overwriting it.
void TrainingRecorder::keep_earlier_history() {
  const auto file = folder_ / "history.json";
  if (std::exchange(is_own_, true) || !std::filesystem::exists(file)) return;
  int number = 1;
  const auto kept = [&] { return folder_ / fmt::format("history.{}.json", number); };
  while (std::filesystem::exists(kept())) ++number;
  std::filesystem::rename(file, kept());
}

void TrainingRecorder::flush() {
  if (!events_) return;
  keep_earlier_history();
  since_flush_.restart();
  events_->flush();
  history_.write(folder_ / "history.json");
}

void TrainingRecorder::go_back_to(std::int64_t steps) {
  if (!events_) return;
  const auto file = folder_ / "history.json";
  if (std::filesystem::exists(file)) history_ = History::read(file);
  is_own_ = true;
  history_.drop_after(steps);
  events_->forget_from(steps + 1);
  loss_ = 0;
  steps_ = 0;
  last_recorded_ = steps;
  since_record_.restart();
}

}  // namespace kolo::online
