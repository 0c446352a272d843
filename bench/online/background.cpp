#include <algorithm>
#include <ctime>
#include <span>
#include <vector>

#include "kolo/base/clock.h"
#include "kolo/base/statistics.h"
#include "kolo/online/online_network.h"
#include "online/measure.h"

namespace kolo {
namespace {

// Heat on a square, explicit in time: computes within the core's own caches.
class Heat {
 public:
  static constexpr std::int64_t side = 256;

  Heat() : now_(side * side), next_(side * side) { now_[side * side / 2 + side / 2] = 1; }

  // One time step: forty small ones.
  void advance() {
    for (int i = 0; i < 40; ++i) {
      for (std::size_t y = 1; y + 1 < side; ++y) {
        for (std::size_t x = 1; x + 1 < side; ++x) {
          const std::size_t at = y * side + x;
          next_[at] = now_[at] + .2 * (now_[at - 1] + now_[at + 1] + now_[at - side] +
                                       now_[at + side] - 4 * now_[at]);
        }
      }
      std::swap(now_, next_);
    }
  }
  [[nodiscard]] const std::vector<double>& now() const { return now_; }

 private:
  std::vector<double> now_, next_;
};

// Seconds per time step, by the clock and of the processor in the solver's thread. On a busy
// machine the second tells more, but leaves out waits.
struct Times {
  double wall = 0, processor = 0;
};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Times the solver's steps, which push samples if there is a network.
Times time_steps(Heat& heat, OnlineNetwork* network, std::int64_t steps) {
  const double before = processor_seconds();
  constexpr std::int64_t row = Heat::side;
  const Stopwatch watch;
  for (std::int64_t step = 1; step <= steps; ++step) {
    heat.advance();
    if (network == nullptr) continue;
    std::vector<Array> inputs;
    auto* const first = const_cast<double*>(heat.now().data()) + row;
    for (std::int64_t i = 0; i < 8; ++i) inputs.push_back(Array(first + i * row, {row}));
    const Array wanted(first + 8 * row, {row});
    network->push(inputs, std::span(&wanted, 1));
    network->tick(step);
  }
  const auto count = static_cast<double>(steps);
  return {watch.seconds() / count, (processor_seconds() - before) / count};
}

}  // namespace

std::vector<Figure> measure_background(const OnlineBench& bench) {
  OnlineNetwork network(bench.ranks, closure_config({"training.background=true"}));
  Heat heat;
  const auto steps = std::max<std::int64_t>(1, bench.steps / 4);
  std::vector<double> alone, beside, alone_processor, beside_processor;
  double trained = 0;
  for (int round = 0; round <= bench.rounds; ++round) {
    const auto first = time_steps(heat, nullptr, steps);
    const double version = network.get("steps");
    network.start();
    const auto second = time_steps(heat, &network, steps);
    network.pause();
    if (round == 0) continue;
    alone.push_back(slowest(bench.ranks, first.wall));
    beside.push_back(slowest(bench.ranks, second.wall));
    alone_processor.push_back(slowest(bench.ranks, first.processor));
    beside_processor.push_back(slowest(bench.ranks, second.processor));
    trained += network.get("steps") - version;
  }
  const auto slowdown = [](const std::vector<double>& with, const std::vector<double>& without) {
    return 100 * (median(with) / median(without) - 1);
  };
  return {
      {"a time step of the solver alone", 1e3 * median(alone), "ms"},
      {"the same beside training, with push() and tick()", 1e3 * median(beside), "ms"},
      {"slowdown", slowdown(beside, alone), "%"},
      {"slowdown in processor time of its thread", slowdown(beside_processor, alone_processor),
       "%"},
      {"training steps per time step", trained / static_cast<double>(steps * bench.rounds), ""}};
}

}  // namespace kolo
