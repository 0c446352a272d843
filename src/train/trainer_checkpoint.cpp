#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json_value.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/train/train_state.h"
#include "kolo/train/trainer.h"
#include "train/advice.h"

namespace kolo {

namespace {

// JSON has no NaN: it is written as null, and a diverged run must be loadable all the same.
double number(const nlohmann::json& document, const char* key) {
  const auto& value = document.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// The state in a checkpoint's state.json; numbers come back as the same bits.
nlohmann::json to_json(const TrainState& state) {
  return {{"is_validated", state.is_validated},
          {"step", state.step},
          {"epoch", state.epoch},
          {"position", state.position},
          {"sums",
           {{"loss", state.sums.loss},
            {"correct", state.sums.correct},
            {"in_top", state.sums.in_top},
            {"samples", state.sums.samples}}},
          {"skipped_steps", state.skipped_steps},
          {"skipped_in_epoch", state.skipped_in_epoch},
          {"epoch_seconds", state.epoch_seconds},
          {"best_accuracy", state.best_accuracy},
          {"best_loss", state.best_loss},
          {"best_epoch", state.best_epoch}};
}

// Error for a document that to_json() has not made.
TrainState train_state_from_json(const nlohmann::json& document) {
  try {
    TrainState state;
    state.is_validated = document.value("is_validated", true);  // older ones were not asked
    state.step = document.at("step").get<std::int64_t>();
    state.epoch = document.at("epoch").get<std::int64_t>();
    state.position = document.at("position").get<std::int64_t>();
    const auto& sums = document.at("sums");
    state.sums = {number(sums, "loss"), number(sums, "correct"), number(sums, "in_top"),
                  number(sums, "samples")};
    state.skipped_steps = document.value("skipped_steps", std::int64_t{0});  // older: none
    state.skipped_in_epoch = document.value("skipped_in_epoch", std::int64_t{0});
    state.epoch_seconds = number(document, "epoch_seconds");
    state.best_accuracy = number(document, "best_accuracy");
    // Older checkpoints have none, and JSON has no infinity.
    if (const auto best = document.find("best_loss"); best != document.end() && !best->is_null())
      state.best_loss = best->get<double>();
    state.best_epoch = document.at("best_epoch").get<std::int64_t>();
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("train: the checkpoint's state.json is not one of kolo's: ") +
                in_plain_words(error));
  }
}

nlohmann::json to_json(const GradScaler::State& state) {
  return {{"scale", state.scale}, {"good_steps", state.good_steps}};
}

// Error for a document that to_json() has not made.
GradScaler::State loss_scale_from_json(const nlohmann::json& document) {
  try {
    return {document.at("scale").get<double>(), document.at("good_steps").get<std::int64_t>()};
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("train: the loss scale of the checkpoint's state.json is not one of "
                    "kolo's: {}",
                    in_plain_words(error)));
  }
}

template <typename Named>
std::vector<NamedTensor> tensors_of(const Named& items) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : items) tensors.push_back({item.key(), item.value().detach()});
  return tensors;
}

std::vector<NamedTensor> model_tensors(const torch::nn::Module& network) {
  auto tensors = tensors_of(network.named_parameters());
  for (auto& buffer : tensors_of(network.named_buffers())) tensors.push_back(std::move(buffer));
  return tensors;
}

const NamedTensor* find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& item) { return item.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string shape_of(const torch::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().vec(), ", "));
}

[[noreturn]] void refuse(const std::string& what) {
  throw InputError(
      fmt::format("checkpoint: it is of another model: {}; use the configuration of the run it "
                  "belongs to, or another output folder",
                  what));
}

// Both must hold the same names with the same shapes.
void require_same_tensors(const std::vector<NamedTensor>& saved,
                          const std::vector<NamedTensor>& wanted) {
  for (const NamedTensor& item : wanted) {
    const NamedTensor* const other = find(saved, item.name);
    if (other == nullptr) refuse(fmt::format("it has no {}", item.name));
    if (other->tensor.sizes() != item.tensor.sizes()) {
      refuse(fmt::format("its {} is {}, the configuration's is {}", item.name,
                         shape_of(other->tensor), shape_of(item.tensor)));
    }
  }
  for (const NamedTensor& item : saved) {
    if (find(wanted, item.name) == nullptr)
      refuse(fmt::format("it has {}, which the configuration's has not", item.name));
  }
}

void copy_tensors(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& into) {
  const torch::NoGradGuard no_gradient;
  for (const NamedTensor& item : into) {
    const NamedTensor* const source = find(saved, item.name);
    if (source == nullptr || source->tensor.sizes() != item.tensor.sizes()) {
      throw Error(fmt::format("train: the checkpoint has no {} of shape {}", item.name,
                              shape_of(item.tensor)));
    }
    torch::Tensor(item.tensor).copy_(source->tensor);
  }
}

std::string broadcast_text(const Communicator& communicator, const std::string& of_root) {
  auto length = narrow<std::int64_t>(of_root.size());
  communicator.broadcast(std::span(&length, 1));
  std::string text = of_root;
  text.resize(static_cast<std::size_t>(length));
  communicator.broadcast(Buffer(text.data(), length, DataType::uint8));
  return text;
}

// `is_good`: of one tensor.
template <typename Predicate>
void require_all(const std::vector<NamedTensor>& tensors, std::string_view what, std::int64_t step,
                 const Predicate& is_good) {
  const auto bad = std::find_if(tensors.begin(), tensors.end(),
                                [&](const NamedTensor& item) { return !is_good(item.tensor); });
  if (bad == tensors.end()) return;
  throw Error(fmt::format(
      "checkpoint: {} {} is not finite after step {}, so that nothing could go on from it. It is "
      "not saved. {}",
      what, bad->name, step, advice_on_what_is_not_finite()));
}

bool has_nan(const torch::Tensor& tensor) {
  return tensor.is_floating_point() && tensor.isnan().any().item<bool>();
}

// By parameter, of those that were frozen or not used in some steps.
constexpr const char* left_out_key = "left_out_steps";

std::string optimizer_name(const Checkpoint& checkpoint) {
  return checkpoint.state.value("optimizer", std::string("unknown"));
}

}  // namespace

void load_network(const Checkpoint& checkpoint, Network& network) {
  const auto wanted = model_tensors(network);
  require_same_tensors(checkpoint.model, wanted);
  copy_tensors(checkpoint.model, wanted);
}

void require_matching_checkpoint(const Checkpoint& checkpoint, const Network& network,
                                 const FlatOptimizer& optimizer) {
  require_same_tensors(checkpoint.model, model_tensors(network));
  if (optimizer_name(checkpoint) != optimizer.name()) {
    throw InputError(
        fmt::format("resume: the checkpoint's optimizer is {}, the configuration's is {}; resume "
                    "with the same one",
                    optimizer_name(checkpoint), optimizer.name()));
  }
}

Checkpoint Trainer::checkpoint() const {
  if (under_way_) {
    throw Error(
        fmt::format("train: a checkpoint while the device is at step {}: the network is ahead of "
                    "what is known of it. Call settle() first, or set TrainerOptions::settle_every "
                    "for an observer",
                    state_.step));
  }
  Checkpoint checkpoint;
  const auto finite = [](const torch::Tensor& tensor) { return is_finite(tensor); };
  checkpoint.model = model_tensors(*network_);
  for (const auto& item : step_.optimizer().named_state())
    checkpoint.optimizer.push_back({item.name, item.tensor});
  require_all(tensors_of(network_->named_parameters()), "the network's", state_.step, finite);
  require_all(checkpoint.optimizer, "the optimizer's", state_.step, finite);
  // Infinity may be meant, as in masks.
  require_all(tensors_of(network_->named_buffers()), "the network's", state_.step,
              [](const torch::Tensor& tensor) { return !has_nan(tensor); });
  checkpoint.state = to_json(state_);
  checkpoint.state["optimizer"] = step_.optimizer().algorithm().name();
  if (step_.scaler()) checkpoint.state["loss_scale"] = to_json(step_.scaler()->state());
  const auto left_out = step_.optimizer().skipped_steps();
  for (std::size_t i = 0; i < left_out.size(); ++i) {
    if (left_out[i] > 0)
      checkpoint.state[left_out_key][step_.arena()->plan().parameters[i].name] = left_out[i];
  }
  checkpoint.state["ranks"] = communicator_.size();
  checkpoint.state["seed"] = options_.seed;
  checkpoint.state["training_samples"] = training_.dataset().size();
  return checkpoint;
}

void Trainer::restore(const std::optional<Checkpoint>& of_root) {
  const bool is_root = communicator_.rank() == 0;
  std::vector<NamedTensor> optimizer_tensors;
  for (const auto& item : step_.optimizer().named_state())
    optimizer_tensors.push_back({item.name, item.tensor});
  if (is_root) {
    require_matching_checkpoint(of_root.value(), *network_, step_.optimizer().algorithm());
    copy_tensors(of_root->model, model_tensors(*network_));
    copy_tensors(of_root->optimizer, optimizer_tensors);
    const auto saved = of_root->state.value(left_out_key, nlohmann::json::object());
    std::vector<std::int64_t> left_out;
    for (const auto& parameter : step_.arena()->plan().parameters)
      left_out.push_back(saved.value(parameter.name, std::int64_t{0}));
    step_.optimizer().set_skipped_steps(left_out);
  }
  step_.arena()->broadcast_parameters(communicator_);
  broadcast_outside_arena(communicator_, *network_);
  step_.optimizer().broadcast_state(communicator_);
  const auto text = broadcast_text(communicator_, is_root ? of_root->state.dump() : "");
  const auto state = nlohmann::json::parse(text);
  state_ = train_state_from_json(state);
  const auto done_in_epoch = training_.batches() - training_.batches(state_.position);
  schedule_ahead_ = options_.ends_with_steps(training_.batches())
                        ? 0
                        : state_.epoch * training_.batches() + done_in_epoch - state_.step;
  // A training in another precision had none.
  if (step_.scaler() && state.contains("loss_scale"))
    step_.scaler()->restore(loss_scale_from_json(state.at("loss_scale")));
}

}  // namespace kolo
