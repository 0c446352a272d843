#include <functional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/statistics.h"
#include "kolo/nn/network.h"
#include "kolo/online/online_network.h"
#include "online/measure.h"

namespace kolo {

namespace {

constexpr std::int64_t features = 8;

}  // namespace

OnlineConfig closure_config(const std::vector<std::string>& overrides) {
  return load_online_config(
      "model: {name: mlp, hidden: [64, 64], inputs: [8], outputs: [1]}\n"
      "training: {samples: cells, batch_size: 64, loss: mse, log_every: 0}\n"
      "optimizer: {name: adam, lr: 1e-3}\n",
      overrides);
}

namespace {

// Eight input fields and an output field, within halos two cells wide.
class HaloedFields {
 public:
  explicit HaloedFields(std::int64_t side)
      : side_(side),
        row_(side + 4),
        memory_(static_cast<std::size_t>((features + 1) * row_ * row_), .25) {}

  [[nodiscard]] std::vector<Array> inputs() {
    std::vector<Array> arrays;
    for (std::int64_t i = 0; i < features; ++i) arrays.push_back(inner(i));
    return arrays;
  }
  [[nodiscard]] Array output() { return inner(features); }

 private:
  [[nodiscard]] Array inner(std::int64_t field) {
    return Array(memory_.data() + field * row_ * row_ + 2 * row_ + 2, {side_, side_}, {row_, 1});
  }

  std::int64_t side_, row_;
  std::vector<double> memory_;
};

struct Times {
  double infer = 0, forward = 0;  // seconds per call
};

Times time_calls(const OnlineBench& bench, const std::function<void()>& infer,
                 const std::function<void()>& forward, std::int64_t calls) {
  std::vector<double> of_infer, of_forward;
  const auto timed = [&](const std::function<void()>& call) {
    const Stopwatch watch;
    for (std::int64_t i = 0; i < calls; ++i) call();
    return watch.seconds() / static_cast<double>(calls);
  };
  for (int round = 0; round <= 3 * bench.rounds; ++round) {
    const double first = timed(infer), second = timed(forward);
    if (round == 0) continue;
    of_infer.push_back(first);
    of_forward.push_back(second);
  }
  return {median(of_infer), median(of_forward)};
}

}  // namespace

std::vector<Figure> measure_inference(const OnlineBench& bench) {
  const auto config = closure_config({});
  const OnlineNetwork network(bench.ranks, config);
  const auto bare = built_in_models().make_tensors(
      config.model.name, config.model.own,
      {.input_shape = config.model.inputs, .output_shape = config.model.outputs});
  bare->eval();
  std::vector<Figure> figures;
  const auto add = [&](const std::string& name, std::span<const Array> inputs, const Array& output,
                       std::int64_t samples) {
    const auto batch = torch::full({samples, features}, .25);
    const auto calls = std::max<std::int64_t>(50, bench.steps * 16 / (samples + 15));
    const auto times = time_calls(
        bench, [&] { network.infer(inputs, std::span(&output, 1)); },
        [&] {
          const torch::NoGradGuard no_gradient;
          (void)bare->forward(std::span(&batch, 1));
        },
        calls);
    figures.push_back({name + ", forward alone", 1e6 * times.forward, "us"});
    figures.push_back({name + ", infer() beyond", 1e6 * (times.infer - times.forward), "us"});
  };
  // As cells of eight arrays, each of so many values in a row.
  for (const std::int64_t samples : {1, 64}) {
    std::vector<double> values(static_cast<std::size_t>((features + 1) * samples), .25);
    std::vector<Array> inputs;
    for (std::int64_t i = 0; i < features; ++i)
      inputs.push_back(Array(values.data() + i * samples, {samples}));
    add(fmt::format("{} samples", samples), inputs,
        Array(values.data() + features * samples, {samples}), samples);
  }
  for (const std::int64_t side : {8, 64}) {
    HaloedFields fields(side);
    add(fmt::format("{0}x{0} cells inside halos", side), fields.inputs(), fields.output(),
        side * side);
  }
  return figures;
}

}  // namespace kolo
