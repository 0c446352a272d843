#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/statistics.h"
#include "kolo/study/measure.h"

namespace kolo {

namespace {

// Clocks layers by their operators, forward and backward, on this thread. An operator belongs to
// the layer whose parameter, or a copy of it in another type, it takes. One at a time on a thread.
class LayerClock {
 public:
  explicit LayerClock(const Network& network) {
    for (const auto& item : network.named_parameters()) {
      const auto dot = item.key().rfind('.');
      layers_.try_emplace(key_of(item.value()),
                          dot == std::string::npos ? "" : item.key().substr(0, dot));
    }
    active = this;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(begins, ends)
            .needsInputs(true)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  LayerClock(const LayerClock&) = delete;
  LayerClock& operator=(const LayerClock&) = delete;
  ~LayerClock() {
    at::removeCallback(handle_);
    active = nullptr;
  }

  // Called before a step and when its forward pass is done.
  void begin_step() {
    is_forward_ = true;
    copies_.clear();
    for (auto& [name, times] : times_) {
      times.forward.push_back(0);
      times.backward.push_back(0);
    }
    ++steps_;
    seconds_of_step_ = 0;
  }
  void forward_is_done() { is_forward_ = false; }

  // Seconds of all layers in the step that began last.
  [[nodiscard]] double seconds_of_step() const { return seconds_of_step_; }
  // Sets the medians over the steps.
  void put_times(LayerTime& layer) const {
    const auto found = times_.find(layer.name);
    if (found == times_.end()) return;
    layer.forward_seconds = median(found->second.forward);
    layer.backward_seconds = median(found->second.backward);
  }

 private:
  struct Times {
    std::vector<double> forward, backward;  // by step
  };
  // Values are found by where they begin and how many they are, as the flat memory of all
  // parameters begins where the first of them does.
  static std::string key_of(const torch::Tensor& tensor) {
    return fmt::format("{} {}", tensor.data_ptr(), tensor.numel());
  }

  // The first argument of an operator, for its end, as arguments are gone by then.
  struct FirstArgument : at::ObserverContext {
    std::string layer;
    std::int64_t values = 0;
  };

  static std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& function) {
    auto& clock = *active;
    if (function.scope() == at::RecordScope::BACKWARD_FUNCTION || clock.is_forward_) {
      if (clock.depth_++ == 0) clock.begin();
    }
    const auto inputs = function.inputs();
    clock.look_at(inputs);
    if (!clock.is_forward_ || inputs.empty()) return nullptr;
    auto layer = clock.layer_of(inputs[0]);
    if (layer.empty()) return nullptr;
    auto argument = std::make_unique<FirstArgument>();
    argument->layer = std::move(layer);
    argument->values = inputs[0].toTensor().numel();
    return argument;
  }
  static void ends(const at::RecordFunction& function, at::ObserverContext* context) {
    auto& clock = *active;
    if (function.scope() != at::RecordScope::BACKWARD_FUNCTION && !clock.is_forward_) return;
    if (context != nullptr)
      clock.remember_copy(static_cast<const FirstArgument&>(*context), function.outputs());
    if (--clock.depth_ == 0) clock.end();
  }

  void begin() {
    layer_.clear();
    watch_.restart();
  }
  void look_at(c10::ArrayRef<const c10::IValue> inputs) {
    for (const auto& input : inputs) {
      if (!layer_.empty()) return;
      layer_ = layer_of(input);
    }
  }
  // Layer whose parameter a value is; "" if it is none.
  [[nodiscard]] std::string layer_of(const c10::IValue& value) const {
    if (!value.isTensor() || !value.toTensor().defined()) return {};
    const auto key = key_of(value.toTensor());
    for (const auto* const known : {&layers_, &copies_})
      if (const auto found = known->find(key); found != known->end()) return found->second;
    return {};
  }
  void end() {
    if (layer_.empty()) return;
    auto& times = times_[layer_];
    for (auto* const passes : {&times.forward, &times.backward}) passes->resize(steps_);
    const auto seconds = watch_.seconds();
    (is_forward_ ? times.forward : times.backward).back() += seconds;
    seconds_of_step_ += seconds;
  }
  // Products in another type take copies of the weights, which last for a step.
  void remember_copy(const FirstArgument& weight, const std::vector<c10::IValue>& outputs) {
    if (outputs.empty() || !outputs[0].isTensor() || !outputs[0].toTensor().defined()) return;
    const auto& copy = outputs[0].toTensor();
    if (copy.numel() == weight.values) copies_.try_emplace(key_of(copy), weight.layer);
  }

  // LibTorch takes plain functions to call back, so this is how they find the clock.
  static thread_local LayerClock* active;

  std::unordered_map<std::string, std::string> layers_, copies_;  // by key_of()
  std::unordered_map<std::string, Times> times_;
  std::size_t steps_ = 0;
  double seconds_of_step_ = 0;
  bool is_forward_ = false;
  std::int64_t depth_ = 0;
  std::string layer_;  // of the operator under way; "" until it is known
  Stopwatch watch_;
  at::CallbackHandle handle_ = 0;
};

thread_local LayerClock* LayerClock::active = nullptr;

// The least over a third of a second, as other users of a core may hold up a few calls in a row.
template <typename Work>
double least_seconds(const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (const Stopwatch all; all.seconds() < .3;) {
    const Stopwatch watch;
    work();
    least = std::min(least, watch.seconds());
  }
  return least;
}

double measure_products(torch::ScalarType type) {
  constexpr std::int64_t length = 1024;
  const auto a = torch::randn({length, length}).to(type),
             b = torch::randn({length, length}).to(type);
  auto product = torch::empty_like(a);
  return 2. * length * length * length / least_seconds([&] { torch::mm_out(product, a, b); });
}

// Processors without products of bfloat16 are faster in float32, and kernels know it.
double fastest_products(Precision precision) {
  const double in_float32 = measure_products(torch::kFloat);
  return precision == Precision::fp32 ? in_float32
                                      : std::max(in_float32, measure_products(torch::kBFloat16));
}

double measure_copies() {
  constexpr std::int64_t bytes = 64 << 20;
  const auto from = torch::ones({bytes}, torch::kUInt8);
  auto to = torch::empty_like(from);
  return 2. * bytes / least_seconds([&] { to.copy_(from); });
}

// The roofline of a layer: arithmetic and traffic at once (Williams et al., "Roofline", 2009).
// Values of inputs and outputs, and their gradients, are read or written once, weights in float32.
struct Roofline {
  double operations_per_second = 0, bytes_per_second = 0, value_bytes = 0, batch = 0;

  // `passes`: over inputs and weights, of which each has its products; outputs are met in one.
  [[nodiscard]] double seconds(const LayerSummary& layer, double passes) const {
    const double outputs = std::accumulate(layer.output_shape.begin(), layer.output_shape.end(), 1.,
                                           std::multiplies<>());
    const double values = passes * static_cast<double>(layer.input_elements) + outputs;
    const double bytes = batch * values * value_bytes +
                         passes * static_cast<double>(layer.parameters) * sizeof(float);
    return std::max(passes * batch * static_cast<double>(layer.flops) / operations_per_second,
                    bytes / bytes_per_second);
  }
};

std::vector<LayerTime> rooflines_of(const ModelSummary& summary, const Roofline& roofline) {
  std::vector<LayerTime> layers;
  for (const auto& layer : summary.layers) {
    if (layer.name.empty() || layer.parameters == 0) continue;
    // Backward reads inputs and weights and writes their gradients, and reads that of the outputs.
    // The first layer's input needs no gradient, and so nothing of the weights.
    const double backward = layers.empty() ? 1 : 2;
    layers.push_back({.name = layer.name,
                      .kind = layer.kind,
                      .forward_least = roofline.seconds(layer, 1),
                      .backward_least = roofline.seconds(layer, backward)});
  }
  return layers;
}

}  // namespace

LayerProfile measure_layers(const Communicator& communicator, Trainer& trainer, Network& network,
                            Loader& loader, Precision precision, const BenchPlan& plan) {
  const Batch batch = first_batch(loader);
  const auto type = precision == Precision::fp32 ? torch::kFloat : torch::kBFloat16;
  communicator.barrier();
  LayerProfile profile{.operations_per_second = fastest_products(precision)};
  communicator.barrier();
  profile.bytes_per_second = measure_copies();
  const Roofline roofline{profile.operations_per_second, profile.bytes_per_second,
                          static_cast<double>(c10::elementSize(type)),
                          static_cast<double>(batch.input.size(0))};
  profile.layers = rooflines_of(summarize(network, batch.input.sizes().slice(1)), roofline);
  LayerClock clock(network);
  trainer.listen([&] { clock.forward_is_done(); });
  std::vector<double> rests;
  for (std::int64_t step = 0; step < plan.steps; ++step) {
    communicator.barrier();
    clock.begin_step();
    const Stopwatch watch;
    trainer.step(batch);
    trainer.settle();
    rests.push_back(watch.seconds() - clock.seconds_of_step());
    plan.step_done();
  }
  trainer.listen({});
  profile.rest_seconds = median(std::move(rests));
  for (auto& layer : profile.layers) clock.put_times(layer);
  return profile;
}

}  // namespace kolo
