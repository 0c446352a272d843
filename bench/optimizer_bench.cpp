// Compares the optimizers' passes over flat buffers with the memory's bandwidth:
//
//   mpirun -n 2 optimizer_bench [--elements 117000000] [--rounds 7]
//
// Every rank copies a buffer of as many float32 values, and makes a step of each optimizer on
// buffers of its own, in turns; a turn is as long as its slowest rank's. A copy moves 8 bytes per
// value, a step of Adam 28: parameters, both states and the gradient are read, all but the gradient
// written. Shares are of the copy's bytes per second. In the last rows the ranks of a node share
// the step (see ArenaOptimizer): each makes its part of it, alone, after an all-reduce of the
// gradients (which reads and writes all ranks' gradients), and with their average in the same pass.
// For GPUs: device_bench.
#include <cstring>
#include <iostream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/statistics.h"
#include "kolo/comm/mpi.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {
namespace {

struct Options {
  std::size_t elements = 117'000'000;  // the U-Net's parameters
  int rounds = 7;
};

// One kind of turn, and the bytes of memory that it moves per value.
struct Pass {
  std::string name;
  double bytes = 0;
  std::function<void(std::int64_t step)> run;
};

class Buffers {
 public:
  explicit Buffers(std::size_t elements) {
    for (auto& values : values_) values.assign(elements, 1e-3F);
  }

  [[nodiscard]] FlatSlice<float> slice() {
    return {
        .parameters = values_[0], .gradients = values_[1], .state = {values_[2], values_[3], {}}};
  }
  void copy() {
    std::memcpy(values_[0].data(), values_[1].data(), values_[1].size() * sizeof(float));
  }

 private:
  std::array<std::vector<float>, 4> values_;
};

// Adam over an arena of one parameter, as training has it.
class SharedAdam {
 public:
  SharedAdam(const Communicator& communicator, std::size_t elements, bool averages)
      : communicator_(communicator),
        parameter_(network_.register_parameter(
            "weight", torch::zeros({static_cast<std::int64_t>(elements)}))),
        arena_(std::make_shared<ParameterArena>(communicator, network_)),
        optimizer_(communicator, arena_, make_adam({}),
                   StepSharing{.enabled = true, .averages = averages}) {}

  void average() { all_reduce(communicator_, arena_->flat_gradients(0), ReduceOp::average); }
  void step(std::int64_t step) {
    optimizer_.update(0, 1e-4, step);
    optimizer_.finish();
  }

 private:
  Communicator communicator_;
  torch::nn::Module network_;
  torch::Tensor parameter_;
  std::shared_ptr<ParameterArena> arena_;
  ArenaOptimizer optimizer_;
};

std::vector<Pass> passes_of(Buffers& buffers, SharedAdam& shared, SharedAdam& averaging,
                            int ranks) {
  const std::shared_ptr<const FlatOptimizer> sgd = make_sgd({.momentum = .9}), adam = make_adam({});
  return {{"copy", 8, [&](std::int64_t) { buffers.copy(); }},
          {"sgd with momentum", 20,
           [&buffers, sgd](std::int64_t step) { sgd->update(buffers.slice(), 1e-4, step); }},
          {"adam", 28,
           [&buffers, adam](std::int64_t step) { adam->update(buffers.slice(), 1e-4, step); }},
          {"adam, shared", 28. / ranks, [&](std::int64_t step) { shared.step(step); }},
          {"average, then adam", 8 + 28. / ranks,
           [&](std::int64_t step) {
             shared.average();
             shared.step(step);
           }},
          {"average in adam", 4 + 24. / ranks, [&](std::int64_t step) { averaging.step(step); }}};
}

// Seconds of each pass, medians of the rounds.
std::vector<double> measure(const Communicator& communicator, const std::vector<Pass>& passes,
                            int rounds) {
  std::vector<std::vector<double>> seconds(passes.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      communicator.barrier();
      const Stopwatch watch;
      passes[pass].run(round + 2);
      const double slowest = all_reduce_value(communicator, watch.seconds(), ReduceOp::max);
      if (round > 0) seconds[pass].push_back(slowest);  // the first touches the memory
    }
  }
  std::vector<double> medians;
  for (auto& each : seconds) medians.push_back(median(each));
  return medians;
}

void run(int argc, char** argv) {
  Options options;
  CLI::App app("Optimizers' passes over flat buffers beside a copy");
  app.add_option("--elements", options.elements, "float32 values of each buffer");
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  const auto communicator = mpi_communicator();
  Buffers buffers(options.elements);
  SharedAdam shared(communicator, options.elements, false);
  SharedAdam averaging(communicator, options.elements, true);
  const auto passes = passes_of(buffers, shared, averaging, communicator.size());
  const auto seconds = measure(communicator, passes, options.rounds);
  if (communicator.rank() != 0) return;
  const auto rate = [&](std::size_t pass) {
    return static_cast<double>(options.elements) * passes[pass].bytes / seconds[pass];
  };
  std::cout << fmt::format("{} ranks, {} values each\n", communicator.size(), options.elements);
  for (std::size_t pass = 0; pass < passes.size(); ++pass)
    std::cout << fmt::format("{:<18} {:8.2f} ms {:7.2f} GB/s a rank {:6.2f} of the copy's\n",
                             passes[pass].name, 1e3 * seconds[pass], 1e-9 * rate(pass),
                             rate(pass) / rate(0));
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  try {
    kolo::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "optimizer_bench: " << error.what() << std::endl;
    return 1;
  }
}
