// Times the parts of training on a GPU besides the network: a step of Adam beside a copy, and
// all-reduces of float32 in the device's memory.
//
//   device_bench [--device cuda] [--elements 117000000] [--rounds 7] [--json]
//   KOLO_DEVICE_CHANNEL=staged mpirun -n 2 device_bench --elements 0 [--sizes 4096,1048576]
//   [--json]
//
// A copy moves 8 bytes per value, a step of Adam 28: parameters, both states and the gradient are
// read, all but the gradient written. A turn is several calls one after the other, then the wait
// for the device; it takes as long as its slowest rank's. Medians of the rounds. All-reduces of one
// rank are left out. bench/peers/device_adam.py does the same with PyTorch.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/statistics.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string device = "cuda";
  std::int64_t elements = 117'000'000;  // the U-Net's parameters
  std::vector<std::int64_t> sizes;      // bytes
  int rounds = 7;
  bool json = false;
};

// Waits for all work in this thread's stream.
void finish(const torch::Tensor& values) {
  (void)values.slice(0, 0, 1).item<float>();
}

// Seconds of a call; the first round touches the memory and is not counted.
template <typename Call>
double seconds_of(const Communicator& communicator, const torch::Tensor& values, int rounds,
                  int calls, const Call& call) {
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    finish(values);
    communicator.barrier();
    const Stopwatch watch;
    for (int i = 0; i < calls; ++i) call();
    finish(values);
    const double slowest = all_reduce_value(communicator, watch.seconds(), ReduceOp::max);
    if (round > 0) seconds.push_back(slowest / calls);
  }
  return median(std::move(seconds));
}

// Adam over an arena of one parameter, as training has it.
class Adam {
 public:
  Adam(const Communicator& communicator, std::int64_t elements, const torch::Device& device)
      : parameter_(network_.register_parameter("weight", torch::zeros({elements}, device))),
        arena_(std::make_shared<ParameterArena>(communicator, network_)),
        optimizer_(arena_, make_adam({})) {}

  void step() {
    optimizer_.update(0, 1e-4, ++steps_);
    optimizer_.finish();
  }

 private:
  torch::nn::Module network_;
  torch::Tensor parameter_;
  std::shared_ptr<ParameterArena> arena_;
  ArenaOptimizer optimizer_;
  std::int64_t steps_ = 0;
};

Json measure_adam(const Communicator& communicator, const Options& options,
                  const torch::Device& device) {
  constexpr int calls = 10;
  const auto to = torch::full({options.elements}, 1e-3F, device), from = to + 1;
  const double copy = seconds_of(communicator, to, options.rounds, calls, [&] { to.copy_(from); });
  Adam adam(communicator, options.elements, device);
  const double step = seconds_of(communicator, to, options.rounds, calls, [&] { adam.step(); });
  return {{"elements", options.elements}, {"copy_seconds", copy}, {"adam_seconds", step}};
}

// A fast wrong sum is worth nothing.
void check_sum(const Communicator& communicator, const torch::Tensor& values) {
  values.fill_(communicator.rank() + 1);
  all_reduce(communicator, values);
  const auto ranks = communicator.size();
  const auto expected = static_cast<float>(ranks * (ranks + 1)) / 2;
  if (values.eq(expected).all().item<bool>()) return;
  throw Error(fmt::format("device_bench: all-reduce of {} floats: not all elements are {}",
                          values.numel(), expected));
}

Json measure_all_reduces(const Communicator& communicator, const Options& options,
                         const torch::Device& device) {
  constexpr std::int64_t sample_bytes = std::int64_t{16} << 20, most_calls = 64;
  Json rows = Json::array();
  for (const auto bytes : options.sizes) {
    const auto values = torch::zeros({bytes / static_cast<std::int64_t>(sizeof(float))}, device);
    check_sum(communicator, values);
    values.zero_();
    const auto calls = std::clamp<std::int64_t>(sample_bytes / bytes, 1, most_calls);
    rows.push_back(
        {{"bytes", bytes},
         {"seconds", seconds_of(communicator, values, options.rounds, static_cast<int>(calls),
                                [&] { all_reduce(communicator, values); })}});
  }
  return rows;
}

Json measure(const Options& options) {
  const auto communicator = initialize();
  const auto found = pin_device(communicator);
  if (options.device == "cuda" && !found.is_cuda()) {
    throw Error(
        fmt::format("device_bench: there is no GPU that kolo can use: {}; --device cpu "
                    "measures the host's memory",
                    cuda_devices().problem));
  }
  const torch::Device device = options.device == "cuda" ? found : torch::Device(torch::kCPU);
  Json result{{"device", device.str()}, {"ranks", communicator.size()}};
  if (options.elements > 0) result["adam"] = measure_adam(communicator, options, device);
  if (communicator.size() > 1)
    result["all_reduce"] = measure_all_reduces(communicator, options, device);
  const auto capabilities = communicator.capabilities();
  result["transport"] = device.is_cpu() ? capabilities.transport : capabilities.device_transport;
  return communicator.rank() == 0 ? result : Json();
}

void print(const Json& result) {
  std::cout << fmt::format("{} ranks on {}, {}\n", result["ranks"].get<int>(),
                           result["device"].get<std::string>(),
                           result["transport"].get<std::string>());
  if (result.contains("adam")) {
    const auto& adam = result["adam"];
    const double copy = adam["copy_seconds"], step = adam["adam_seconds"];
    const double bytes = static_cast<double>(adam["elements"].get<std::int64_t>());
    std::cout << fmt::format(
        "copy {:9.3f} ms {:8.1f} GB/s\nadam {:9.3f} ms {:8.1f} GB/s, {:.2f} of the copy's\n",
        1e3 * copy, 8e-9 * bytes / copy, 1e3 * step, 28e-9 * bytes / step, 3.5 * copy / step);
  }
  if (!result.contains("all_reduce")) return;
  for (const auto& row : result["all_reduce"]) {
    const double seconds = row["seconds"], bytes = row["bytes"];
    std::cout << fmt::format("all-reduce of {:>10} bytes {:10.1f} us {:8.2f} GB/s\n", bytes,
                             1e6 * seconds, 1e-9 * bytes / seconds);
  }
}

int run(int argc, char** argv) {
  Options options;
  for (std::int64_t bytes = 4096; bytes <= std::int64_t{256} << 20; bytes *= 4)
    options.sizes.push_back(bytes);
  CLI::App program("Adam and all-reduces in a device's memory");
  program.add_option("--device", options.device)
      ->check(CLI::IsMember({"cuda", "cpu"}))
      ->capture_default_str();
  program.add_option("--elements", options.elements, "float32 values that Adam updates; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  program.add_option("--sizes", options.sizes, "Bytes of all-reduces, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{4}, std::int64_t{1} << 34));
  program.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
  program.add_flag("--json", options.json, "Print one JSON object");
  CLI11_PARSE(program, argc, argv);
  const auto result = measure(options);
  if (result.is_null()) return 0;
  if (options.json)
    std::cout << result.dump() << '\n';
  else
    print(result);
  return 0;
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  try {
    return kolo::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
