// Times the exchange of halos between ranks that share samples, on fields as the levels of a 3-D
// U-Net have them (kernel 4, stride 2, padding 1), against a plain copy of the same field.
//
//   halo_bench --threads 2 [--length 128] [--shape 2,1,1] [--rounds 20] [--json]
//   mpirun -n 2 halo_bench [...]
//
// Extend adds the rows that a rank's convolution reads, fold adds up rows that a transposed one has
// made for other ranks. Ways take turns, so that other load on the machine affects all alike; a
// round takes as long as the slowest rank, and the median of the rounds counts.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/machine.h"
#include "kolo/comm/threads.h"
#include "kolo/parallel/halo_exchange.h"
#include "kolo/parallel/initialize.h"

namespace kolo {
namespace {

struct Options {
  int threads = 0;  // ranks as threads; 0: those of the job
  std::int64_t length = 128;
  std::vector<std::int64_t> shape;  // empty: all ranks along the first axis
  std::vector<std::int64_t> channels = {4, 64, 128, 256};
  int rounds = 20;
  bool json = false;
};

constexpr double megabyte = 1e6, gigabyte = 1e9;

// A level's exchanges to time.
struct Level {
  std::vector<HaloAxis> extends, folds;
  torch::Tensor rows, made;  // what a rank has before extend and fold
};

torch::Tensor field(std::int64_t channels, const std::vector<std::int64_t>& lengths) {
  // torch::ones ignores a memory format.
  return torch::ones({1, channels, lengths[0], lengths[1], lengths[2]}, torch::kFloat)
      .contiguous(torch::MemoryFormat::ChannelsLast3d);
}

Level make_level(const DeviceMesh& mesh, std::int64_t length, std::int64_t channels) {
  const AxisLayer layer{.kernel = 4, .stride = 2, .padding = 1};
  auto back = layer;
  back.is_transposed = true;
  Level level;
  std::vector<std::int64_t> own, made;
  for (std::size_t axis = 0; axis < spatial_axes.size(); ++axis) {
    const auto ranks = mesh.length(spatial_axes[axis]);
    const auto place = mesh.coordinate(spatial_axes[axis]);
    const auto cut = cut_evenly(length, ranks);
    own.push_back(cut.rows(place).size());
    made.push_back(own.back());
    if (ranks == 1) continue;
    const auto down = cut_layer(layer, cut), up = cut_layer(back, down.output, cut);
    made.back() = up.extended(place).size();
    level.extends.push_back({axis, down});
    level.folds.push_back({axis, up});
  }
  level.rows = field(channels, own);
  level.made = field(channels, made);
  return level;
}

// Times of one way, by round.
class Times {
 public:
  template <typename Action>
  void add(const Communicator& communicator, const Action& action) {
    communicator.barrier();
    const Stopwatch watch;
    const auto result = action();
    seconds_.push_back(watch.seconds());
  }
  // Median of all rounds but the first. Collective.
  [[nodiscard]] double median_seconds(const Communicator& communicator) const {
    std::vector<double> slowest(seconds_.begin() + 1, seconds_.end());
    communicator.all_reduce(std::span(slowest), ReduceOp::max);
    std::ranges::nth_element(slowest,
                             slowest.begin() + static_cast<std::ptrdiff_t>(slowest.size() / 2));
    return slowest[slowest.size() / 2];
  }

 private:
  std::vector<double> seconds_;
};

nlohmann::ordered_json measure(const Communicator& communicator, const Options& options) {
  const torch::NoGradGuard no_gradient;
  auto shape = options.shape;
  if (shape.empty()) shape = {communicator.size(), 1, 1};
  const DeviceMesh mesh(communicator, {.spatial = shape});
  nlohmann::ordered_json result = {{"ranks", communicator.size()}, {"length", options.length}};
  auto length = options.length;
  for (const auto channels : options.channels) {
    const auto level = make_level(mesh, length, channels);
    Times copy, extend, fold;
    for (int round = 0; round <= options.rounds; ++round) {
      copy.add(communicator, [&] { return level.rows.clone(torch::MemoryFormat::Preserve); });
      extend.add(communicator, [&] { return extend_halos(mesh, level.rows, level.extends); });
      fold.add(communicator, [&] { return fold_halos(mesh, level.made, level.folds); });
    }
    const auto bytes = static_cast<double>(level.rows.numel()) * sizeof(float);
    result["levels"].push_back({{"length", length},
                                {"channels", channels},
                                {"bytes", bytes},
                                {"copy_seconds", copy.median_seconds(communicator)},
                                {"extend_seconds", extend.median_seconds(communicator)},
                                {"fold_seconds", fold.median_seconds(communicator)}});
    length /= 2;
  }
  return result;
}

void print(const nlohmann::ordered_json& result) {
  std::cout << fmt::format("{} ranks share fields of {}^3\n{:>6}{:>10}{:>10}",
                           result["ranks"].dump(), result["length"].dump(), "length", "channels",
                           "MB");
  for (const auto* const way : {"copy", "extend", "fold"})
    std::cout << fmt::format("{:>12}{:>8}", way, "GB/s");
  std::cout << '\n';
  for (const auto& level : result["levels"]) {
    const auto bytes = level["bytes"].get<double>();
    std::cout << fmt::format("{:>6}{:>10}{:>10.2f}", level["length"].dump(),
                             level["channels"].dump(), bytes / megabyte);
    for (const auto* const way : {"copy_seconds", "extend_seconds", "fold_seconds"}) {
      const auto seconds = level[way].get<double>();
      std::cout << fmt::format("{:>9.3f} ms{:>8.2f}", 1e3 * seconds, bytes / seconds / gigabyte);
    }
    std::cout << '\n';
  }
}

void run_rank(const Communicator& communicator, const Options& options) {
  const auto result = measure(communicator, options);
  if (communicator.rank() != 0) return;
  if (options.json)
    std::cout << result.dump(2) << '\n';
  else
    print(result);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App program("Times the exchange of halos against a plain copy");
  program.add_option("--threads", options.threads, "Ranks as threads, instead of a job's")
      ->check(CLI::PositiveNumber);
  program.add_option("--length", options.length, "Of the sample along each axis")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--shape", options.shape, "Ranks along the three axes")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::PositiveNumber);
  program
      .add_option("--channels", options.channels, "By level, each half as long as the one before")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--rounds", options.rounds, "Of each way, after one that is not timed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(program, argc, argv);
  keep_freed_memory();  // as kolo train does
  if (options.threads > 0) {
    torch::set_num_threads(1);
    run_as_threads(options.threads,
                   [&](const Communicator& communicator) { run_rank(communicator, options); });
    return 0;
  }
  const Communicator communicator = initialize();
  pin_device(communicator);
  run_rank(communicator, options);
  return 0;
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  try {
    return kolo::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "halo_bench: " << error.what() << '\n';
    return 1;
  }
}
