#include <filesystem>
#include <iterator>
#include <span>
#include <vector>

#include "kolo/base/machine.h"
#include "kolo/online/online_network.h"
#include "online/measure.h"

namespace kolo {
namespace {

constexpr double mebibyte = 1 << 20;

// A program that has a network and nothing else.
class Program {
 public:
  Program(const OnlineBench& bench, const std::vector<std::string>& overrides)
      : network_(bench.ranks, closure_config(overrides)), values_(9 * cells, .5) {
    for (std::int64_t i = 0; i < 8; ++i)
      inputs_.push_back(Array(values_.data() + i * cells, {cells}));
    wanted_ = Array(values_.data() + 8 * cells, {cells});
  }

  void push() { (void)network_.push(inputs_, std::span(&wanted_, 1)); }
  void steps(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      push();
      (void)network_.tick(++time_step_);
      network_.infer(inputs_, std::span(&wanted_, 1));
    }
  }
  [[nodiscard]] double get(const char* name) const { return network_.get(name); }

 private:
  static constexpr std::int64_t cells = 256;

  OnlineNetwork network_;
  std::vector<double> values_;
  std::vector<Array> inputs_;
  Array wanted_;
  std::int64_t time_step_ = 0;
};

double mapped() {
  return static_cast<double>(resident_bytes()) / mebibyte;
}

double open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<double>(std::distance(begin(files), end(files)));
}

// While a reservoir of 256 MiB is filled and gets as much again.
double beyond_capacity(const OnlineBench& bench) {
  constexpr double capacity = 256;
  Program program(bench, {"reservoir.capacity=256 MiB"});
  program.steps(bench.warm_up);
  const double sample = capacity / program.get("capacity");
  const double before = mapped() - program.get("stored") * sample;
  while (program.get("arrivals") < 2 * program.get("capacity")) program.push();
  program.steps(bench.warm_up);
  return (mapped() - before - capacity) / capacity;
}

}  // namespace

std::vector<Figure> measure_memory(const OnlineBench& bench) {
  std::vector<Figure> figures;
  figures.push_back({"memory beyond a reservoir of 256 MiB", 100 * beyond_capacity(bench), "%"});
  {
    Program program(bench, {"reservoir.capacity=1 MiB"});
    program.steps(1000);
    const double before = mapped();
    program.steps(10'000);
    figures.push_back({"growth over 10 000 steps", mapped() - before, "MiB"});
  }
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) Program(bench, {"reservoir.capacity=1 MiB"}).steps(3);
  };
  rounds(10);
  const double before = mapped(), files = open_files();
  rounds(100);
  figures.push_back({"growth over 100 networks made and gone", mapped() - before, "MiB"});
  figures.push_back({"open files more", open_files() - files, ""});
  return figures;
}

}  // namespace kolo
