#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/pipeline_state.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/trainer.h"
#include "train/batches.h"
#include "train/observe/json_fields.h"

namespace kolo {

namespace {

constexpr auto sums_fields = [](auto& field, auto& sums) {
  field.measured("loss", sums.loss);
  field.measured("correct", sums.correct);
  field.measured("in_top", sums.in_top);
  field.measured("samples", sums.samples);
};

// The state in a checkpoint's state.json: numbers come back as the same bits.
constexpr auto state_fields = [](auto& field, auto& state) {
  field("is_validated", state.is_validated);
  field("step", state.step);
  field("epoch", state.epoch);
  field("position", state.position);
  field.record("sums", state.sums, sums_fields);
  field("skipped_steps", state.skipped_steps);
  field("skipped_in_epoch", state.skipped_in_epoch);
  field.measured("epoch_seconds", state.epoch_seconds);
  field("seconds", state.seconds);
  field.measured("best_accuracy", state.best_accuracy);
  field.measured("best_loss", state.best_loss);
  field("best_epoch", state.best_epoch);
};

[[noreturn]] void refuse_state(const std::string& problem) {
  throw Error(fmt::format("train: the checkpoint's state.json is not one of kolo's: {}", problem));
}

TrainState state_from(const nlohmann::json& json) {
  auto state = object_from<TrainState>(json, state_fields);
  if (std::isnan(state.best_loss))  // JSON has no infinity
    state.best_loss = std::numeric_limits<double>::infinity();
  return state;
}

// Sorts tensors, or optimizer state of tensors ("conv1.weight.exp_avg"), by the order of `names`.
void put_in_order(std::vector<NamedTensor>& tensors, const std::vector<std::string>& names) {
  std::unordered_map<std::string, std::size_t> numbers;
  for (const auto& name : names) numbers.emplace(name, numbers.size());
  const auto number_of = [&](const NamedTensor& tensor) {
    const auto found = numbers.find(tensor.name);
    if (found != numbers.end()) return found->second;
    const auto owner = numbers.find(tensor.name.substr(0, tensor.name.rfind('.')));
    return owner == numbers.end() ? numbers.size() : owner->second;
  };
  std::ranges::stable_sort(tensors, {}, number_of);
}

// Worst value in a tensor, from good to bad.
enum class Values { finite, infinite, nan };

Values worst_of(const torch::Tensor& tensor) {
  if (is_finite(tensor)) return Values::finite;
  return tensor.isnan().any().item<bool>() ? Values::nan : Values::infinite;
}

// Tensors of one kind on their way into a checkpoint of `step`.
struct Taking {
  std::string_view what;
  std::int64_t step = 0;
  Values worst = Values::finite;  // that is accepted
  SnapshotMemory* memory = nullptr;
};
void take(std::vector<NamedTensor>& tensors, const Taking& taking) {
  for (auto& item : tensors) {
    if (worst_of(item.tensor) > taking.worst)
      throw Error(fmt::format(
          "checkpoint: {} {} is not finite after step {}, so that nothing could go on from it. It "
          "is not saved. {}",
          taking.what, item.name, taking.step, advice_on_what_is_not_finite()));
    if (taking.memory != nullptr) item.tensor = taking.memory->copy(item.tensor);
  }
}

// Keeps the tensors of one shard; all writers plan alike over both lists.
void keep_shard(std::vector<NamedTensor>& parameters, std::vector<NamedTensor>& optimizer,
                std::uint64_t buffer_bytes, const CheckpointRequest& request) {
  std::vector<std::uint64_t> bytes;
  for (const auto* const list : {&parameters, &optimizer})
    for (const auto& item : *list) bytes.push_back(item.tensor.nbytes());
  const auto plan = plan_shards(bytes, request.shards, buffer_bytes);
  std::size_t index = 0;
  for (auto* const list : {&parameters, &optimizer})
    std::erase_if(*list, [&](const NamedTensor&) { return plan[index++] != request.shard; });
}

// Optimizers that average save two sets of parameters: those to use in the model's file, those in
// training in the optimizer's file, under this name. The average depends on the rates so far.
constexpr const char* trained_name = "y";
constexpr const char* rates_key = "rate_history";

std::string trained_name_of(const std::string& parameter) {
  return fmt::format("{}.{}", parameter, trained_name);
}

// Puts the averaged parameters (Schedule-Free) in place of the trained ones, bit for bit as
// BucketOptimizer::to_evaluation(). Parameters without state are frozen, or further names of one
// that has some.
void take_those_for_use(std::vector<NamedTensor>& parameters, std::vector<NamedTensor>& optimizer,
                        const FlatOptimizer& algorithm) {
  const auto use = algorithm.for_use();
  if (!use) return;
  const torch::NoGradGuard no_gradient;
  std::unordered_map<std::string, torch::Tensor> states;
  for (const auto& item : optimizer) states.emplace(item.name, item.tensor);
  const auto state_name = algorithm.state_names()[use->index];
  std::unordered_map<const void*, torch::Tensor> made;
  for (auto& item : parameters) {
    const void* const data = item.tensor.data_ptr();
    if (const auto same = made.find(data); same != made.end()) {
      item.tensor = same->second;
      continue;
    }
    const auto found = states.find(fmt::format("{}.{}", item.name, state_name));
    if (found == states.end()) continue;
    optimizer.push_back({trained_name_of(item.name), item.tensor});
    item.tensor = item.tensor - found->second.mul(use->factor);
    made.emplace(data, item.tensor);
  }
}

// Key of the skipped steps of each parameter that was frozen or unused in some.
constexpr const char* skipped_key = "left_out_steps";
constexpr const char* warmup_key = "warmup";

// Refuses to train a parameter that was frozen so far, because it has no optimizer state. A tensor
// of several names has its state under the first.
void require_state_of_trained(const Checkpoint& checkpoint, const Network& network,
                              const FlatOptimizer& optimizer) {
  if (optimizer.state_names().empty()) return;
  const auto state = optimizer.state_names().front();
  std::unordered_set<std::string> saved;
  for (const auto& item : checkpoint.optimizer) saved.insert(item.name);
  std::unordered_set<const c10::TensorImpl*> known;
  const auto parameters = network.named_parameters();
  for (const auto& item : parameters)
    if (saved.contains(fmt::format("{}.{}", item.key(), state)))
      known.insert(item.value().unsafeGetTensorImpl());
  for (const auto& item : parameters) {
    if (!item.value().requires_grad() || known.contains(item.value().unsafeGetTensorImpl()))
      continue;
    throw InputError(fmt::format(
        "resume: the checkpoint has no state of the optimizer for {}, which was frozen in the run "
        "so far; go on with its model.freeze, or begin a run of its weights with model.init_from",
        item.key()));
  }
}

void require_same_optimizer(const Checkpoint& checkpoint, const FlatOptimizer& optimizer) {
  const auto name = checkpoint.state.value("optimizer", std::string("unknown"));
  if (name == optimizer.name()) return;
  throw InputError(
      fmt::format("resume: the checkpoint's optimizer is {}, the configuration's is {}; resume "
                  "with the same one",
                  name, optimizer.name()));
}

}  // namespace

void load_network(const Checkpoint& checkpoint, Network& network) {
  const auto wanted = module_tensors(network);
  require_same_tensors(checkpoint.model, wanted);
  copy_tensors(checkpoint.model, wanted);
}

void require_matching_checkpoint(const Checkpoint& checkpoint, const Network& network,
                                 const FlatOptimizer& optimizer) {
  require_same_tensors(checkpoint.model, module_tensors(network));
  require_same_optimizer(checkpoint, optimizer);
  require_state_of_trained(checkpoint, network, optimizer);
}

std::vector<NamedTensor> Trainer::of_all_parts(std::vector<NamedTensor> mine) const {
  const auto* const parts = network_->parts();
  if (parts == nullptr) return mine;
  std::vector<NamedTensor> all;
  collect_tensors(parts->ranks, mine, [&](const OwnedTensor& owned, torch::Tensor value) {
    all.push_back({owned.name, std::move(value)});
  });
  put_in_order(all, parts->names);
  return all;
}

void Trainer::hand_out(const std::vector<NamedTensor>& saved,
                       const std::vector<NamedTensor>& mine) const {
  const auto* const parts = network_->parts();
  if (parts == nullptr) {
    if (communicator_.rank() == 0) copy_tensors(saved, mine);
    return;
  }
  // The pipelines of other replicas are told by the first one's ranks.
  if (network_->replicas().rank() != 0) return;
  hand_out_tensors(parts->ranks, mine, [&](const OwnedTensor& owned) {
    return saved_tensor(saved, owned.name, owned.sizes);
  });
}

// BucketOptimizer::skipped_steps() of the whole network, by name, where there are some.
nlohmann::json Trainer::skipped_by_parameter() const {
  auto skipped = nlohmann::json::object();
  const auto counts = step_.optimizer().skipped_steps();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) skipped[step_.arena()->plan().parameters[i].name] = counts[i];
  if (const auto* const parts = network_->parts()) {
    for (const auto& text : all_gather_bytes(parts->ranks, skipped.dump()))
      skipped.update(nlohmann::json::parse(text));
  }
  return skipped;
}

// Parameters as trained, not averaged, under their names in the optimizer's file.
std::vector<NamedTensor> Trainer::trained_parameters() const {
  std::vector<NamedTensor> tensors;
  const auto& arena = *step_.arena();
  for (std::size_t i = 0; i < arena.parameters().size(); ++i) {
    tensors.push_back(
        {trained_name_of(arena.plan().parameters[i].name), arena.parameters()[i].detach()});
  }
  return tensors;
}

Trainer::LiveTensors Trainer::live_tensors(const CheckpointRequest& request) const {
  const auto& module = *network_->module();
  LiveTensors live{module_parameters(module), module_buffers(module),
                   step_.optimizer().named_state(0)};
  take_those_for_use(live.parameters, live.optimizer, step_.optimizer().algorithm());
  if (request.shards == 1) return live;
  std::uint64_t buffer_bytes = 0;
  for (const auto& item : live.buffers) buffer_bytes += item.tensor.nbytes();
  keep_shard(live.parameters, live.optimizer, buffer_bytes, request);
  if (request.shard > 0) live.buffers.clear();
  return live;
}

std::uint64_t Trainer::checkpoint_bytes(const CheckpointRequest& request) const {
  if (!has_whole_state()) return 0;
  const auto [parameters, buffers, optimizer] = live_tensors(request);
  return SnapshotMemory::bytes_for(parameters) + SnapshotMemory::bytes_for(buffers) +
         SnapshotMemory::bytes_for(optimizer);
}

Checkpoint Trainer::checkpoint(const CheckpointRequest& request) const {
  if (under_way_)
    throw Error(
        fmt::format("train: a checkpoint while the device is at step {}: the network is ahead of "
                    "what is known of it. Call settle() first, or set TrainerOptions::settle_every "
                    "for an observer",
                    state_.step));
  auto* const memory = has_whole_state() ? request.memory : nullptr;
  if (memory != nullptr) memory->clear();
  auto [parameters, buffers, optimizer] = live_tensors(request);
  take(parameters, {"the network's", state_.step, Values::finite, memory});
  // Infinity may be meant, as in masks.
  take(buffers, {"the network's", state_.step, Values::infinite, memory});
  take(optimizer, {"the optimizer's", state_.step, Values::finite, memory});
  if (memory != nullptr) SnapshotMemory::wait(device());
  if (step_.optimizer().is_sharded()) {
    if (communicator_.rank() != 0) return {};
    for (auto* const list : {&parameters, &buffers})
      for (auto& item : *list) item.tensor = item.tensor.clone();
  }
  std::ranges::move(buffers, std::back_inserter(parameters));
  Checkpoint checkpoint;
  checkpoint.model = of_all_parts(std::move(parameters));
  checkpoint.optimizer = of_all_parts(std::move(optimizer));
  checkpoint.state = json_of<nlohmann::json>(state_, state_fields);
  checkpoint.state["optimizer"] = step_.optimizer().algorithm().name();
  if (step_.scaler()) {
    const auto [scale, good_steps] = step_.scaler()->state();
    checkpoint.state["loss_scale"] = {{"scale", scale}, {"good_steps", good_steps}};
  }
  if (step_.optimizer().algorithm().for_use()) {
    const auto [largest, sum_of_squares] = step_.optimizer().rate_history();
    checkpoint.state[rates_key] = {{"largest", largest}, {"sum_of_squares", sum_of_squares}};
  }
  if (auto skipped = skipped_by_parameter(); !skipped.empty())
    checkpoint.state[skipped_key] = std::move(skipped);
  if (warmup_.steps > 0) {
    checkpoint.state[warmup_key] = {{"steps", warmup_.steps},
                                    {"steps_of_epoch", warmup_.steps_of_epoch}};
  }
  checkpoint.state["ranks"] = communicator_.size();
  checkpoint.state["seed"] = options_.seed;
  if (options_.virtual_ranks > 0) checkpoint.state["virtual_ranks"] = options_.virtual_ranks;
  if (!options_.made_with.empty()) checkpoint.state["made_with"] = options_.made_with;
  checkpoint.state["training_samples"] = training_.dataset().size();
  return checkpoint;
}

// A run that asks for another warm-up than it began with has that, in the steps that it takes now.
void Trainer::restore_warmup(const nlohmann::json& state) {
  const auto saved = state.find(warmup_key);
  if (saved == state.end() || options_.ends_with_steps(training_.batches())) return;
  const Warmup before{json_value<std::int64_t>(*saved, "steps"),
                      json_value<std::int64_t>(*saved, "steps_of_epoch")};
  if (before.steps != warmup_.steps || before.steps_of_epoch == warmup_.steps_of_epoch ||
      before.steps == 0 || before.steps_of_epoch == 0)
    return;
  const double epochs =
      static_cast<double>(before.steps) / static_cast<double>(before.steps_of_epoch);
  learning_rate_ = learning_rate_.with_warmup(warmup_steps_of(epochs, training_.batches()));
  warmup_ = before;
}

void Trainer::restore(const std::optional<Checkpoint>& of_root) {
  const bool is_root = communicator_.rank() == 0;
  const Checkpoint nothing;
  const Checkpoint& saved = is_root ? of_root.value() : nothing;
  const auto model = module_tensors(*network_->module());
  if (is_root) {
    if (network_->parts() == nullptr) require_same_tensors(saved.model, model);
    require_same_optimizer(saved, step_.optimizer().algorithm());
  }
  hand_out(saved.model, model);
  const auto text = broadcast_bytes(communicator_, is_root ? saved.state.dump() : "");
  try {
    const auto state = nlohmann::json::parse(text);
    const auto counts =
        state.contains(skipped_key) ? json_member(state, skipped_key) : nlohmann::json::object();
    std::vector<std::int64_t> skipped;
    for (const auto& parameter : step_.arena()->plan().parameters) {
      const auto* const name = parameter.name.c_str();
      skipped.push_back(counts.contains(name) ? json_value<std::int64_t>(counts, name) : 0);
    }
    const auto replicas = step_.replicas();
    step_.optimizer().scatter_state(replicas, skipped, [&](const std::vector<NamedTensor>& whole) {
      hand_out(saved.optimizer, whole);
    });
    const bool averages = step_.optimizer().algorithm().for_use().has_value();
    if (averages) hand_out(saved.optimizer, trained_parameters());
    step_.arena()->broadcast_parameters(replicas);
    broadcast_outside_arena(replicas, *network_->module());
    state_ = state_from(state);
    const auto done_in_epoch = training_.batches() - training_.batches(state_.position);
    schedule_ahead_ = options_.ends_with_steps(training_.batches())
                          ? 0
                          : state_.epoch * training_.batches() + done_in_epoch - state_.step;
    restore_warmup(state);
    if (averages) {
      const auto& rates = json_member(state, rates_key);
      step_.optimizer().set_rate_history(
          {number_or_unmeasured(rates, "largest"), number_or_unmeasured(rates, "sum_of_squares")});
    }
    // A training in another precision had none.
    if (step_.scaler() && state.contains("loss_scale")) {
      const auto& scale = json_member(state, "loss_scale");
      step_.scaler()->restore(
          {json_value<double>(scale, "scale"), json_value<std::int64_t>(scale, "good_steps")});
    }
  } catch (const JsonError& error) {
    refuse_state(error.what());
  }
}

}  // namespace kolo
