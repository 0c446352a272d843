// Times training steps of a multi-layer perceptron, to see how much of the averaging of gradients
// backward hides, and what hooks save.
//
//   mpirun -n 2 overlap_bench [--batch 64] [--steps 30] [--hook none|fp16|bf16|powersgd] [--json]
//
// Each way has a network of its own; they take turns step by step, so that whatever else the
// machine does falls on all of them alike. A step takes as long as the slowest rank. Exposed is
// the time that a rank was blocked in wait() and finish(), waiting for slower ranks included, as a
// share of the way's steps.
#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {
namespace {

struct Options {
  std::vector<std::int64_t> widths = {784, 2048, 2048, 2048, 10};
  std::int64_t batch = 64;  // a rank
  std::int64_t steps = 30;  // of each way, after one that is not timed
  std::string hook = "none";
  bool json = false;
};

const PowerSgdOptions low_rank{.start_step = 0};

std::shared_ptr<GradientHook> hook_of(const std::string& name) {
  if (name == "fp16") return float16_compression();
  if (name == "bf16") return bfloat16_compression();
  if (name == "powersgd") return power_sgd(low_rank);
  return nullptr;
}

torch::nn::Sequential make_network(const std::vector<std::int64_t>& widths) {
  torch::manual_seed(1);
  torch::nn::Sequential network;
  for (std::size_t layer = 1; layer < widths.size(); ++layer) {
    network->push_back(torch::nn::Linear(widths[layer - 1], widths[layer]));
    if (layer + 1 < widths.size()) network->push_back(torch::nn::ReLU());
  }
  return network;
}

// One way of training, and what its steps took.
class Way {
 public:
  Way(std::string name, const Communicator& communicator, const Options& options,
      const ReducerOptions& reducer)
      : name_(std::move(name)),
        network_(make_network(options.widths)),
        arena_(std::make_shared<ParameterArena>(communicator, *network_)),
        reducer_(communicator, arena_, reducer),
        optimizer_(arena_, make_sgd({})) {}

  // Makes a step; the first is not counted.
  void step(const torch::Tensor& input, const torch::Tensor& target) {
    if (steps_ == 1) reducer_.reset_statistics();
    const Stopwatch watch;
    reducer_.clear_gradients();
    torch::cross_entropy_loss(network_->forward(input), target).backward();
    for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
      reducer_.wait(bucket);
      optimizer_.update(bucket, 1e-3, steps_ + 1);
    }
    reducer_.finish();
    if (steps_++ > 0) seconds_.push_back(watch.seconds());
  }

  // Collective.
  [[nodiscard]] double median_seconds(const Communicator& communicator) const {
    std::vector<double> slowest = seconds_;
    communicator.all_reduce(std::span(slowest), ReduceOp::max);
    std::sort(slowest.begin(), slowest.end());
    return slowest[slowest.size() / 2];
  }
  // Share of the rank that waits most. Collective.
  [[nodiscard]] double exposed_share(const Communicator& communicator) const {
    const double total = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
    return all_reduce_value(communicator, reducer_.statistics().exposed_seconds / total,
                            ReduceOp::max);
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const ParameterArena& arena() const { return *arena_; }
  [[nodiscard]] ReducerStatistics statistics() const { return reducer_.statistics(); }

 private:
  std::string name_;
  torch::nn::Sequential network_;
  std::shared_ptr<ParameterArena> arena_;
  GradientReducer reducer_;
  ArenaOptimizer optimizer_;
  std::int64_t steps_ = 0;
  std::vector<double> seconds_;
};

// Bytes of a step's gradients on the wire, from their shapes, without paddings.
std::int64_t computed_bytes(const ParameterArena& arena, const std::string& hook) {
  std::int64_t elements = 0;
  for (const torch::Tensor& parameter : arena.parameters()) {
    const auto rows = parameter.size(0);
    const auto columns = parameter.numel() / rows;
    const auto factors = (rows + columns) * low_rank.rank;
    const bool is_compressed =
        hook == "powersgd" && parameter.dim() > 1 && 2 * factors < parameter.numel();
    elements += is_compressed ? factors : parameter.numel();
  }
  return elements * (hook == "fp16" || hook == "bf16" ? 2 : 4);
}

// The ways: as in training, and what each of its parts costs.
std::vector<std::unique_ptr<Way>> make_ways(const Communicator& communicator,
                                            const Options& options) {
  std::vector<std::unique_ptr<Way>> ways;
  const auto add = [&](const char* name, const ReducerOptions& reducer) {
    ways.push_back(std::make_unique<Way>(name, communicator, options, reducer));
  };
  add("overlapping", {.hook = hook_of(options.hook)});
  add("after backward", {.overlap = false, .hook = hook_of(options.hook)});
  add("no communication", {.communicate = false});
  return ways;
}

nlohmann::ordered_json measure(const Communicator& communicator, const Options& options) {
  const auto ways = make_ways(communicator, options);
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(
      static_cast<std::uint64_t>(communicator.rank()) + 1);
  const auto input = torch::randn({options.batch, options.widths.front()}, generator);
  const auto target = torch::randint(options.widths.back(), {options.batch}, generator,
                                     torch::TensorOptions(torch::kLong));
  for (std::int64_t step = 0; step <= options.steps; ++step) {
    for (const auto& way : ways) {
      communicator.barrier();
      way->step(input, target);
    }
  }
  const auto statistics = ways.front()->statistics();
  const bool has_hook = options.hook != "none";
  nlohmann::ordered_json result = {
      {"ranks", communicator.size()},
      {"threads", torch::get_num_threads()},
      {"batch", options.batch},
      {"steps", options.steps},
      {"hook", options.hook},
      {"computed_bytes_per_step", computed_bytes(ways.front()->arena(), options.hook)},
      {"counted_bytes_per_step", (has_hook ? statistics.hook_bytes : statistics.bytes) /
                                     std::max<std::int64_t>(1, statistics.steps)}};
  const double alone = ways.back()->median_seconds(communicator);
  for (const auto& way : ways) {
    const double median = way->median_seconds(communicator);
    result["ways"].push_back({{"name", way->name()},
                              {"median_step_seconds", median},
                              {"ratio_to_no_communication", median / alone},
                              {"exposed_share", way->exposed_share(communicator)}});
  }
  return result;
}

void print(const nlohmann::ordered_json& result) {
  std::cout << fmt::format("{} ranks of {} threads, batches of {}, {} steps, hook {}\n",
                           result["ranks"].get<int>(), result["threads"].get<int>(),
                           result["batch"].get<int>(), result["steps"].get<int>(),
                           result["hook"].get<std::string>());
  std::cout << fmt::format("{} bytes per step by the shapes, {} counted\n",
                           result["computed_bytes_per_step"].get<std::int64_t>(),
                           result["counted_bytes_per_step"].get<std::int64_t>());
  std::cout << fmt::format("{:<20}{:>12}{:>10}{:>10}\n", "", "step", "ratio", "exposed");
  for (const auto& way : result["ways"]) {
    std::cout << fmt::format(
        "{:<20}{:>9.2f} ms{:>10.3f}{:>9.1f}%\n", way["name"].get<std::string>(),
        way["median_step_seconds"].get<double>() * 1e3,
        way["ratio_to_no_communication"].get<double>(), way["exposed_share"].get<double>() * 100);
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App program("Times training steps with and without the averaging of gradients");
  program.add_option("--widths", options.widths, "Of the network's layers")
      ->delimiter(',')
      ->expected(2, 64)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--batch", options.batch, "Samples a rank and step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--steps", options.steps, "Of each way")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--hook", options.hook, "How gradients are averaged")
      ->check(CLI::IsMember({"none", "fp16", "bf16", "powersgd"}))
      ->capture_default_str();
  program.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(program, argc, argv);
  const Communicator communicator = initialize();
  pin_device(communicator);
  const auto result = measure(communicator, options);
  if (communicator.rank() != 0) return 0;
  if (options.json)
    std::cout << result.dump(2) << '\n';
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
