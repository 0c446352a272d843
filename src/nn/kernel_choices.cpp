#include "kolo/nn/kernel_choices.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_value.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "nn/kernels/convolution_kernel.h"

namespace kolo {

namespace {

// The mode that a network is in, as it was afterwards.
class EvaluationMode {
 public:
  explicit EvaluationMode(Network& network) : network_(network) {
    for (const auto& module : network.modules()) was_training_.push_back(module->is_training());
    network.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    // By module: parts of a network may be in another mode than the whole. The whole comes first.
    const auto modules = network_.modules();
    for (std::size_t i = 0; i < modules.size(); ++i) modules[i]->train(was_training_[i]);
  }

 private:
  Network& network_;
  std::vector<bool> was_training_;
};

std::vector<ConvolutionGeometry> convolutions_of(Network& network, at::IntArrayRef batch_shape,
                                                 Precision precision) {
  const EvaluationMode mode(network);
  const torch::NoGradGuard no_gradient;
  const AutocastGuard autocast(precision);
  const WatchConvolutions watch;
  (void)network.forward(torch::zeros(batch_shape));
  return watch.seen();
}

// A network's convolutions, by name.
struct LookedUp {
  KernelChoices known;
  std::map<std::string, ConvolutionGeometry> unknown;  // those with more than one kernel
};

LookedUp look_up(Network& network, at::IntArrayRef batch_shape, Precision precision,
                 const KernelChoices& known) {
  LookedUp result;
  for (const auto& geometry : convolutions_of(network, batch_shape, precision)) {
    const auto name = text_of(geometry);
    if (const auto before = known.find(name); before != known.end()) {
      result.known[name] = before->second;
    } else if (!kernels_to_try(geometry).empty()) {
      result.unknown[name] = geometry;
    }
  }
  return result;
}

// Tensors of a convolution, of no particular values.
struct Tensors {
  torch::Tensor input, weight, bias, output, input_gradient, weight_gradient, bias_gradient;

  explicit Tensors(const ConvolutionGeometry& geometry) {
    const auto lengths = [](std::int64_t first, std::int64_t second, const auto& rest) {
      std::vector<std::int64_t> all = {first, second};
      all.insert(all.end(), rest.begin(), rest.end());
      return all;
    };
    input = torch::full(lengths(geometry.batch, geometry.inputs, geometry.size), .5, geometry.type);
    output = torch::full(lengths(geometry.batch, geometry.outputs, geometry.output_size()), .5,
                         geometry.type);
    const auto plain = torch::full(lengths(geometry.outputs, geometry.inputs, geometry.kernel), .5);
    weight = geometry.has_taps_first ? taps_first(plain) : plain;
    if (geometry.bias) bias = torch::zeros({geometry.outputs});
    input_gradient = torch::empty_like(input);
    weight_gradient = torch::empty_like(weight);
    bias_gradient = torch::Tensor(bias.defined() ? torch::empty_like(bias) : bias);
  }
};

double milliseconds_of_step(ConvolutionKernel& kernel, const Tensors& tensors) {
  const Stopwatch watch;
  kernel.forward(tensors.input, tensors.weight, tensors.bias, tensors.output);
  kernel.backward_input(tensors.output, tensors.weight, tensors.input_gradient);
  kernel.backward_weight(tensors.input, tensors.output, tensors.weight_gradient,
                         tensors.bias_gradient);
  return 1e3 * watch.seconds();
}

// The least of a few, as others only ever add to a time. What takes much longer than the best in
// its first step, which also gets memory, is not tried again. Nor is what takes so long that
// getting memory hardly counts: trials of large volumes would take minutes.
double milliseconds_of(ConvolutionKernel& kernel, const Tensors& tensors, double best) {
  constexpr int times = 3;
  constexpr double hopeless = 2, enough = 1e3;
  double least = milliseconds_of_step(kernel, tensors), all = least;
  for (int i = 0; i < times && least < hopeless * best && all < enough; ++i) {
    const auto taken = milliseconds_of_step(kernel, tensors);
    least = std::min(least, taken);
    all += taken;
  }
  return least;
}

// What is taken without a measurement stays, unless another is faster for sure. Nothing when it
// stops in between.
std::optional<KernelChoice> choice_for(const ConvolutionGeometry& geometry,
                                       const std::function<bool()>& stops) {
  constexpr double clearly = .95;
  const Tensors tensors(geometry);
  KernelChoice choice;
  double best = std::numeric_limits<double>::infinity();
  for (const auto kind : kernels_to_try(geometry)) {
    const auto kernel = make_kernel(kind, geometry);
    if (!kernel || kernel->order() != MemoryOrder::channels_last) continue;
    if (stops()) return std::nullopt;
    const auto taken = milliseconds_of(*kernel, tensors, best);
    choice.milliseconds.emplace(name_of(kind), taken);
    if (taken < (choice.kernel.empty() ? 1 : clearly) * best) {
      choice.kernel = name_of(kind);
      best = taken;
    }
  }
  return choice;
}

}  // namespace

std::string to_json(const KernelChoices& choices) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const auto& [convolution, choice] : choices)
    all[convolution] = {{"kernel", choice.kernel}, {"milliseconds", choice.milliseconds}};
  return all.dump(2);
}

KernelChoices kernel_choices_from_json(std::string_view text) {
  try {
    const auto all = nlohmann::json::parse(text);
    if (!all.is_object()) throw Error("nn: choices of kernels: a JSON object is expected");
    KernelChoices choices;
    for (const auto& [convolution, choice] : all.items()) {
      choices[convolution] = {choice.at("kernel").get<std::string>(),
                              choice.at("milliseconds").get<std::map<std::string, double>>()};
    }
    return choices;
  } catch (const nlohmann::json::parse_error& error) {  // whose words repeat what may be no text
    throw Error(
        fmt::format("nn: choices of kernels: damaged at byte {}: expected JSON", error.byte));
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("nn: choices of kernels: {}", in_plain_words(error)));
  }
}

std::optional<KernelChoices> known_kernels(Network& network, at::IntArrayRef batch_shape,
                                           Precision precision, const KernelChoices& known) {
  auto convolutions = look_up(network, batch_shape, precision, known);
  if (!convolutions.unknown.empty()) return std::nullopt;
  return std::move(convolutions.known);
}

KernelChoices measure_kernels(Network& network, at::IntArrayRef batch_shape, Precision precision,
                              const KernelChoices& known,
                              const std::function<void(std::size_t, std::size_t)>& progress,
                              const std::function<bool()>& stops) {
  auto [found, unknown] = look_up(network, batch_shape, precision, known);
  std::size_t done = 0;
  for (const auto& [name, geometry] : unknown) {
    progress(done++, unknown.size());
    auto choice = choice_for(geometry, stops);
    if (!choice) break;
    if (!choice->kernel.empty()) found[name] = *std::move(choice);
  }
  return found;
}

}  // namespace kolo
