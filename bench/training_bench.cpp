// Times training steps of one of kolo's networks, as kolo train makes them, on a batch that stays
// the same: what forward, backward, averaging and the optimizer take, without the data.
//
//   mpirun -n 2 training_bench [--model resnet_small] [--input 3,32,32] [--batch 32]
//                              [--optimizer sgd|adam] [--precision fp32|bf16] [--steps 30]
//                              [--whole-steps] [--own-parameters] [--no-communication]
//                              [--json]
//   mpirun -n 2 training_bench --model unet3d --input 4,64,64,64 --output 5,64,64,64 --batch 2
//                              --optimizer adam --steps 5
//
// bench/peers/training.py does the same with PyTorch's DistributedDataParallel and gloo, and
// bench/compare_training runs both in turns.
#include <algorithm>
#include <iostream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/machine.h"
#include "kolo/nn/models.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/initialize.h"
#include "kolo/train/objective.h"

namespace kolo {
namespace {

struct Options {
  std::string model = "resnet_small";
  std::vector<std::int64_t> input = {3, 32, 32};
  std::int64_t classes = 10;
  std::vector<std::int64_t> output;  // of networks that make fields
  std::int64_t batch = 32;           // a rank
  std::string optimizer = "sgd";
  std::string precision = "fp32";
  std::int64_t steps = 30;
  std::int64_t warm_up = 3;
  bool whole_steps = false;
  bool communicate = true;
  bool json = false;
};

std::unique_ptr<FlatOptimizer> optimizer_of(const std::string& name) {
  if (name == "adam") return make_adam({});
  return make_sgd({.momentum = .9});
}

ModelOptions model_options(const Options& options) {
  ModelOptions model{.input_shape = options.input};
  options.output.empty() ? void(model.classes = options.classes)
                         : void(model.output_shape = options.output);
  return model;
}

std::vector<std::int64_t> batch_shape(std::int64_t batch, std::vector<std::int64_t> sample) {
  sample.insert(sample.begin(), batch);
  return sample;
}

class Training {
 public:
  Training(const Communicator& communicator, const Options& options)
      : network_(make_network(options.model, model_options(options))),
        arena_(std::make_shared<ParameterArena>(communicator, *network_)),
        reducer_(communicator, arena_, {.communicate = options.communicate}),
        optimizer_(communicator, arena_, optimizer_of(options.optimizer),
                   StepSharing{.enabled = options.communicate && !options.whole_steps}) {
    arena_->broadcast_parameters(communicator);
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(
        static_cast<std::uint64_t>(communicator.rank()) + 1);
    input_ = torch::randn(batch_shape(options.batch, options.input), generator);
    target_ = options.output.empty()
                  ? torch::randint(options.classes, {options.batch}, generator,
                                   torch::TensorOptions(torch::kLong))
                  : torch::randn(batch_shape(options.batch, options.output), generator);
    objective_.loss = make_loss(options.output.empty() ? "cross_entropy" : "l1");
    objective_.precision = named<Precision>("training_bench", "precision", options.precision);
  }

  void step() {
    reducer_.clear_gradients();
    // The trainer, too, has released the outputs by then.
    const auto loss = objective_.loss(forward_for(objective_, *network_, input_), target_);
    loss.backward();
    ++steps_;
    for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
      reducer_.wait(bucket);
      optimizer_.update(bucket, 1e-4, steps_);
    }
    reducer_.finish();
    optimizer_.finish();
  }

 private:
  std::shared_ptr<Network> network_;
  std::shared_ptr<ParameterArena> arena_;
  GradientReducer reducer_;
  ArenaOptimizer optimizer_;
  Objective objective_;
  torch::Tensor input_, target_;
  std::int64_t steps_ = 0;
};

nlohmann::ordered_json measure(const Communicator& communicator, const Options& options) {
  torch::manual_seed(1);
  Training training(communicator, options);
  for (std::int64_t step = 0; step < options.warm_up; ++step) training.step();
  std::vector<double> seconds;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const Stopwatch watch;
    training.step();
    seconds.push_back(watch.seconds());
  }
  communicator.all_reduce(std::span(seconds), ReduceOp::max);
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  return {{"model", options.model},
          {"precision", options.precision},
          {"libtorch", TORCH_VERSION},
          {"ranks", communicator.size()},
          {"threads", torch::get_num_threads()},
          {"batch", options.batch},
          {"steps", options.steps},
          {"median_step_seconds", median},
          {"samples_per_second", static_cast<double>(options.batch * communicator.size()) / median},
          {"peak_memory_bytes", peak_resident_bytes()}};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App program("Times training steps on a batch that stays the same");
  program.add_option("--model", options.model, "One of kolo's networks")->capture_default_str();
  program.add_option("--input", options.input, "Shape of a sample")->delimiter(',');
  program.add_option("--classes", options.classes)->capture_default_str();
  program.add_option("--output", options.output, "Shape of a target that is a field")
      ->delimiter(',');
  program.add_option("--batch", options.batch, "Samples a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--optimizer", options.optimizer)
      ->check(CLI::IsMember({"sgd", "adam"}))
      ->capture_default_str();
  program.add_option("--precision", options.precision)
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  program.add_option("--steps", options.steps, "Timed ones, after three that are not")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_flag("--whole-steps", options.whole_steps,
                   "Every rank updates all parameters, instead of its part of the node's");
  program.add_flag("!--no-communication", options.communicate,
                   "Ranks train on their own, side by side");
  program.add_flag("--json", options.json, "Print one JSON object");
  CLI11_PARSE(program, argc, argv);
  keep_freed_memory();  // as kolo train does
  const auto communicator = initialize();
  const auto result = measure(communicator, options);
  if (communicator.rank() != 0) return 0;
  if (options.json) {
    std::cout << result.dump() << std::endl;
  } else {
    std::cout << fmt::format(
        "{}, {}: {} ranks of {} threads, batch {} per rank: {:.2f} ms per step, {:.1f} "
        "samples/s\n",
        options.model, options.precision, communicator.size(), torch::get_num_threads(),
        options.batch, 1e3 * result["median_step_seconds"].get<double>(),
        result["samples_per_second"].get<double>());
  }
  return 0;
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  try {
    return kolo::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "training_bench: " << error.what() << std::endl;
    return 1;
  }
}
