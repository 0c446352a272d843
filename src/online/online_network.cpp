#include "online/inside.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/machine.h"
#include "kolo/base/random.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/train/observe/format.h"

namespace kolo {

using namespace online;  // NOLINT: what this class is made of

// Each call keeps the program's state (HostState) and forwards to Inside.

OnlineNetwork::OnlineNetwork(const Communicator& ranks, const OnlineConfig& config,
                             OnlineComponents components) {
  const HostState host;
  const BlasThreads blas;
  inside_ = std::make_unique<Inside>(ranks, config, std::move(components));
}

OnlineNetwork::OnlineNetwork(OnlineNetwork&&) noexcept = default;
OnlineNetwork& OnlineNetwork::operator=(OnlineNetwork&&) noexcept = default;

OnlineNetwork::~OnlineNetwork() {
  const HostState host;
  inside_.reset();
}

PushReport OnlineNetwork::push(std::span<const Array> inputs, std::span<const Array> targets,
                               std::span<const Array> extras) {
  const HostState host;
  return inside_->push(inputs, targets, extras);
}

TickReport OnlineNetwork::tick(std::int64_t time_step) {
  const HostState host;
  const BlasThreads blas;
  return inside_->tick(time_step);
}

double OnlineNetwork::train(std::span<const Array> inputs, std::span<const Array> targets,
                            std::span<const Array> extras) {
  const HostState host;
  const BlasThreads blas;
  return inside_->train(inputs, targets, extras);
}

void OnlineNetwork::infer(std::span<const Array> inputs, std::span<const Array> outputs) const {
  const HostState host;
  inside_->infer(inputs, outputs);
}

void OnlineNetwork::warm_up(std::span<const Array> inputs) const {
  const HostState host;
  inside_->warm_up(inputs);
}

TickReport OnlineNetwork::serve() {
  const HostState host;
  const BlasThreads blas;
  return inside_->serve();
}

std::int64_t OnlineNetwork::refresh() {
  const HostState host;
  return inside_->refresh();
}

void OnlineNetwork::finish() {
  const HostState host;
  inside_->finish();
}

void OnlineNetwork::start() {
  const HostState host;
  inside_->start();
}

void OnlineNetwork::pause() {
  const HostState host;
  inside_->pause();
}

void OnlineNetwork::save(const std::filesystem::path& folder, std::int64_t tag) {
  const HostState host;
  const BlasThreads blas;
  inside_->save(folder, tag);
}

void OnlineNetwork::restore(const std::filesystem::path& folder, std::int64_t tag) {
  const HostState host;
  const BlasThreads blas;
  inside_->restore(folder, tag);
}

void OnlineNetwork::log(std::string_view name, std::int64_t step, double value) {
  const HostState host;
  inside_->log(name, step, value);
}

double OnlineNetwork::get(std::string_view name) const {
  const HostState host;
  return inside_->get(name);
}

bool OnlineNetwork::trains() const {
  return inside_->trains();
}

namespace {

constexpr std::uint32_t weights_stream = 0xFFFFFFFF;  // steps use the ranks' numbers

void require_same_config(const Communicator& ranks, const OnlineConfig& config,
                         const ModelCatalogue& models) {
  const auto mine = online_config_text(config, models);
  const auto first = broadcast_bytes(ranks, mine);
  const Call call{"network_create", ranks.rank()};
  agree(ranks, call, [&] {
    if (mine == first) return;
    throw InputError(
        call.text("its configuration is another than rank 0's; give all ranks the same"));
  });
}

// Counts the reservoirs of all training ranks on this machine.
void require_memory(const OnlineConfig& config, const Roles& roles, const Topology& topology) {
  const auto memory = installed_memory();
  const auto each = bytes_from_text(config.reservoir.capacity).value();
  const auto here = std::ranges::count_if(roles.trainers, [&](int rank) {
    return topology.node_of_rank[static_cast<std::size_t>(rank)] == topology.node;
  });
  const double all = static_cast<double>(each) * static_cast<double>(here);
  if (!memory || all <= static_cast<double>(*memory)) return;
  throw InputError(
      fmt::format("reservoir.capacity: {} per rank that trains, of which this machine has {}, "
                  "would take {}, but "
                  "it has {} of memory; make it smaller",
                  config.reservoir.capacity, here, format_bytes(static_cast<std::uint64_t>(all)),
                  format_bytes(static_cast<std::uint64_t>(*memory))));
}

// Makes the network with weights that depend on the seed alone; keeps LibTorch's generator.
std::shared_ptr<TensorsNetwork> make_with_seed(const MakeNetwork& make, std::uint64_t seed) {
  const DrawAlone turn;
  const KeepGenerators random(derive_seed(seed, weights_stream, 0));
  return make();
}

MakeNetwork maker_of(const OnlineConfig& config, const OnlineComponents& components) {
  const auto& model = config.model;
  if (model.name == "own") {
    if (!components.network) {
      throw InputError(
          "model.name: own is a network that the program makes in C++ (OnlineComponents::network), "
          "and "
          "there is none; name one of the catalogue, or torchscript with a file");
    }
    return components.network;
  }
  ModelOptions shapes{.input_shape = model.inputs};
  if (components.models.find(model.name).output == ModelOutput::classes &&
      model.outputs.size() == 1)
    shapes.classes = model.outputs.front();
  else
    shapes.output_shape = model.outputs;
  return [models = components.models, name = model.name, own = model.own, shapes] {
    return models.make_tensors(name, own, shapes);
  };
}

bool has_catalogue_loss(const OnlineConfig& config, const OnlineComponents& components) {
  return !components.loss && config.training.loss_file.empty();
}

TensorsLoss loss_of(const OnlineConfig& config, const OnlineComponents& components) {
  const auto& training = config.training;
  if (components.loss) return components.loss;
  if (!training.loss_file.empty()) return make_torchscript_loss(training.loss_file);
  const auto& entry = loss_entry(training.loss);
  return as_tensors_loss(entry.make(entry.completed(training.loss_own)));
}

}  // namespace

OnlineNetwork::Inside::Inside(const Communicator& ranks, const OnlineConfig& config,
                              OnlineComponents components)
    : ranks_(ranks.with_own_order()),
      config_(config),
      store_(config),
      normalizer_(config.normalization) {
  keep_freed_memory_of_steps();
  require_same_config(ranks_, config_, components.models);
  agree(ranks_, call("network_create"), [&] {
    roles_ = Roles::of(config_.training, ranks_.rank(), ranks_.size());
    require_memory(config_, roles_, ranks_.topology());
    make_network(components);
    if (roles_.trains && ranks_.rank() == roles_.trainers.front())
      recorder_ =
          std::make_unique<TrainingRecorder>(config_, static_cast<int>(roles_.trainers.size()));
  });
  make_trainer(components);
  publish();
}

void OnlineNetwork::Inside::make_network(const OnlineComponents& components) {
  const auto make = maker_of(config_, components);
  network_ = make_with_seed(make, config_.seed);
  if (!network_) {
    throw InputError(
        "model.name: own: OnlineComponents::network has returned a null pointer; have it return a "
        "network");
  }
  const auto is_frozen = [](const torch::Tensor& each) { return !each.requires_grad(); };
  has_tensors_outside_ =
      !network_->buffers().empty() || std::ranges::any_of(network_->parameters(), is_frozen);
  live_ = Weights::of(*network_);
  inference_ = std::make_unique<Inference>(make, config_.training);
}

void OnlineNetwork::Inside::make_trainer(const OnlineComponents& components) {
  trainers_ = roles_.are_all ? ranks_.with_own_order() : ranks_.subset(roles_.trainers);
  if (trainers_) store_.set_number(trainers_->rank());
  if (config_.training.apart) {
    std::vector<int> others;
    for (int rank = 0; rank < ranks_.size(); ++rank)
      if (std::ranges::count(roles_.trainers, rank) == 0) others.push_back(rank);
    computing_ = ranks_.subset(others);
    for (const int client : roles_.clients) inboxes_.emplace_back(ranks_, client);
    if (roles_.computes) outbox_.emplace(ranks_, roles_.trainer);
  }
  TensorsLoss loss;
  agree(ranks_, call("network_create"), [&] { loss = loss_of(config_, components); });
  if (has_catalogue_loss(config_, components)) catalogue_loss_ = loss;
  if (trainers_) trainer_ = std::make_unique<OnlineTrainer>(*trainers_, network_, config_, loss);
}

void OnlineNetwork::Inside::require_computing(const Call& call) const {
  if (roles_.computes) return;
  throw StateError(
      call.text("this rank trains apart (training.apart); its one call until the end is serve()"));
}

void OnlineNetwork::Inside::require_foreground(const Call& call) const {
  if (!background_) return;
  throw StateError(call.text("training goes on in the background; call pause() before"));
}

void OnlineNetwork::Inside::infer(std::span<const Array> inputs,
                                  std::span<const Array> outputs) const {
  inference_->infer(inputs, outputs, call("infer"));
}

void OnlineNetwork::Inside::warm_up(std::span<const Array> inputs) const {
  inference_->warm_up(inputs, call("warm_up"));
}

void OnlineNetwork::Inside::log(std::string_view name, std::int64_t step, double value) {
  if (recorder_) recorder_->add_value(name, step, value);
}

double OnlineNetwork::Inside::get(std::string_view name) const {
  const auto number = [](auto value) { return static_cast<double>(value); };
  const auto weights = inference_->weights();
  if (name == "loss") return progress_.loss;
  if (name == "learning_rate") return progress_.learning_rate;
  if (name == "steps") return number(progress_.all_steps);
  if (name == "skipped") return number(progress_.skipped);
  if (name == "version") return number(weights->version);
  if (name == "arrivals") return number(store_.counts().arrivals);
  if (name == "stored") return number(store_.counts().stored);
  if (name == "capacity") return number(store_.capacity());
  if (name == "parameters") {
    std::int64_t count = 0;
    for (const auto& parameter : weights->parameters) count += parameter.numel();
    return number(count);
  }
  // A double holds 53 bits.
  if (name == "checksum") return number(weights->checksum() >> 11);
  refuse(call("get"), "name",
         fmt::format("there is no \"{}\"; expected one of loss, learning_rate, steps, skipped, "
                     "version, arrivals, stored, capacity, parameters, checksum",
                     name));
}

}  // namespace kolo
