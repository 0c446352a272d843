// Times all-reduce of float32 sums: MPI's own, PyTorch's gloo (where it can be had) and kolo's, in
// the same run, taking turns.
//
//   mpirun -n 2 all_reduce_bench [--sizes 4096,1048576] [--json]
//
// A sample begins, as a step of training does, with every rank writing its own buffer; after a
// barrier come one or, for small sizes, several calls, each on a part of its own that has just been
// written. It takes as long as the slowest rank. The ways take turns sample by sample, so that
// whatever else the machine does falls on all of them alike. See docs/inside/performance.md.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "comm/mpi/mpi_calls.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/comm/mpi.h"
#include "peers/gloo.h"

namespace kolo {
namespace {

struct Options {
  std::vector<std::size_t> sizes;  // bytes
  double seconds = 1;              // for each size
  MpiOptions mpi;
  bool has_gloo = true;
  bool json = false;
};

// One way of doing the all-reduce, in memory of its own.
struct Way {
  std::string name;
  std::span<float> memory;
  std::function<void(std::span<float>)> all_reduce;
  bool is_own = false;  // kolo's
};

struct Timing {
  double median = 0;  // seconds a call
  double least = 0;
};

constexpr std::size_t least_repetitions = 15;
constexpr std::size_t most_repetitions = 2000;

constexpr std::size_t least_sample_bytes = std::size_t{1} << 20;

// Calls in one sample: enough for the clock and the barrier not to matter.
std::size_t calls_in_sample(std::size_t bytes) {
  return std::clamp<std::size_t>(least_sample_bytes / bytes, 1, 64);
}

double sample(const Way& way, std::size_t count, std::size_t calls) {
  way.all_reduce(way.memory.first(count));  // not timed: the other ways have had the caches
  std::fill_n(way.memory.begin(), count * calls, 1.0F);
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  const Stopwatch watch;
  for (std::size_t call = 0; call < calls; ++call)
    way.all_reduce(way.memory.subspan(call * count, count));
  return watch.seconds() / static_cast<double>(calls);
}

// Every rank's value becomes the largest.
void take_slowest(std::span<double> seconds) {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, seconds.data(), static_cast<int>(seconds.size()),
                          MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
            "MPI_Allreduce");
}

Timing summarise(std::vector<double> seconds) {
  take_slowest(seconds);
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front()};
}

// Number of samples of all ways that fit into the time; the same on all ranks.
std::size_t repetitions_for(const std::vector<Way>& ways, std::size_t count, std::size_t calls,
                            double seconds) {
  Stopwatch watch;
  for (const Way& way : ways) (void)sample(way, count, calls);
  double once = watch.seconds();
  take_slowest(std::span(&once, 1));
  return std::clamp(static_cast<std::size_t>(seconds / once), least_repetitions, most_repetitions);
}

std::vector<Timing> measure(const std::vector<Way>& ways, std::size_t bytes, double seconds) {
  const auto count = bytes / sizeof(float);
  const auto calls = calls_in_sample(bytes);
  const auto repetitions = repetitions_for(ways, count, calls, seconds);
  std::vector<std::vector<double>> samples(ways.size());
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t way = 0; way < ways.size(); ++way)
      samples[way].push_back(sample(ways[way], count, calls));
  }
  std::vector<Timing> timings;
  for (auto& of_way : samples) timings.push_back(summarise(std::move(of_way)));
  return timings;
}

// Checks the sums: a fast wrong one is worth nothing.
void check_sums(const Way& way, std::size_t count, int rank, int size) {
  const auto values = way.memory.first(count);
  const auto value_of = [](std::size_t index, int of_rank) {
    return static_cast<float>(index % 1000) + static_cast<float>(of_rank);
  };
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(i, rank);
  way.all_reduce(values);
  for (std::size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int of_rank = 0; of_rank < size; ++of_rank) expected += value_of(i, of_rank);
    if (values[i] == expected) continue;
    throw Error(fmt::format("bench: {} of {} floats: element {} is {}, expected {}", way.name,
                            count, i, values[i], expected));
  }
}

// Calls function(peer, own) for each way that is not kolo's and each that is.
template <typename Function>
void for_ratios(const std::vector<Way>& ways, const Function& function) {
  for (std::size_t peer = 0; peer < ways.size(); ++peer) {
    for (std::size_t own = 0; own < ways.size(); ++own) {
      if (!ways[peer].is_own && ways[own].is_own) function(peer, own);
    }
  }
}

std::string name_of_size(std::size_t bytes) {
  if (bytes % (std::size_t{1} << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % 1024 == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

// Bytes of one rank's buffer over the time of a call ("algorithm bandwidth"), 10^9 a second.
double gigabytes_per_second(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds * 1e-9;
}

// A table: each way's median, then how many times faster each of kolo's ways is than each peer (the
// ratio of medians, and of the fastest samples).
void print_row(std::size_t bytes, const std::vector<Way>& ways,
               const std::vector<Timing>& timings) {
  std::string row = fmt::format("{:>8}", name_of_size(bytes));
  for (const Timing& timing : timings) {
    row += fmt::format(" | {:>9.1f} {:>6.2f}", timing.median * 1e6,
                       gigabytes_per_second(bytes, timing.median));
  }
  for_ratios(ways, [&](std::size_t peer, std::size_t own) {
    row += fmt::format(" | {:>6.2f} {:>6.2f}", timings[peer].median / timings[own].median,
                       timings[peer].least / timings[own].least);
  });
  std::cout << row << std::endl;
}

void print_heading(const std::vector<Way>& ways) {
  std::string names = fmt::format("{:>8}", ""), units = fmt::format("{:>8}", "size");
  for (const Way& way : ways) {
    names += fmt::format(" | {:>16}", way.name);
    units += fmt::format(" | {:>9} {:>6}", "us", "GB/s");
  }
  for_ratios(ways, [&](std::size_t peer, std::size_t own) {
    names +=
        fmt::format(" | {:>13}", ways[peer].name.substr(0, 4) + "/" + ways[own].name.substr(5));
    units += fmt::format(" | {:>6} {:>6}", "med", "min");
  });
  std::cout << names << '\n' << units << std::endl;
}

nlohmann::json as_json(std::size_t bytes, const std::vector<Way>& ways,
                       const std::vector<Timing>& timings) {
  nlohmann::json row = {{"bytes", bytes}};
  for (std::size_t way = 0; way < ways.size(); ++way) {
    row[ways[way].name] = {{"median_seconds", timings[way].median},
                           {"least_seconds", timings[way].least}};
  }
  return row;
}

struct OrdinaryMemory {
  std::vector<float> of_mpi, of_gloo, ordinary;
};

std::vector<Way> ways_of(const Communicator& communicator, OrdinaryMemory& memory,
                         std::span<float> shared, bool has_gloo) {
  const auto with_kolo = [communicator](std::span<float> values) {
    communicator.all_reduce(values, ReduceOp::sum);
  };
  const auto with_mpi = [](std::span<float> values) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                            MPI_SUM, MPI_COMM_WORLD),
              "MPI_Allreduce");
  };
  std::vector<Way> ways = {{"MPI_Allreduce", memory.of_mpi, with_mpi}};
  if (has_gloo) {
    const auto with_gloo = gloo_all_reduce(communicator.rank(), communicator.size());
    if (!with_gloo) {
      throw Error(
          "all_reduce_bench: gloo, a peer, is not in this build; Debian's package is libgloo-dev; "
          "or leave it out with --no-gloo");
    }
    ways.push_back({"gloo", memory.of_gloo, with_gloo});
  }
  ways.push_back({"kolo allocated", shared, with_kolo, true});
  ways.push_back({"kolo ordinary", memory.ordinary, with_kolo, true});
  return ways;
}

void run(const Options& options) {
  const auto communicator = mpi_communicator(options.mpi);
  const std::size_t largest =
      std::max(least_sample_bytes, *std::max_element(options.sizes.begin(), options.sizes.end()));
  const std::size_t count = largest / sizeof(float);
  const auto allocated = communicator.allocate(largest);
  const std::span shared(reinterpret_cast<float*>(allocated.get()), count);
  OrdinaryMemory memory{std::vector<float>(count), std::vector<float>(count),
                        std::vector<float>(count)};
  const auto ways = ways_of(communicator, memory, shared, options.has_gloo);
  const bool is_printing = communicator.rank() == 0;
  if (is_printing && !options.json) {
    std::cout << mpi_library_version() << "; " << communicator.size() << " ranks, "
              << communicator.capabilities().transport << '\n';
    print_heading(ways);
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const std::size_t bytes : options.sizes) {
    for (const Way& way : ways)
      check_sums(way, bytes / sizeof(float), communicator.rank(), communicator.size());
    const auto timings = measure(ways, bytes, options.seconds);
    if (is_printing && !options.json) print_row(bytes, ways, timings);
    rows.push_back(as_json(bytes, ways, timings));
  }
  if (is_printing && options.json) {
    const nlohmann::json result = {{"mpi", mpi_library_version()},
                                   {"ranks", communicator.size()},
                                   {"transport", communicator.capabilities().transport},
                                   {"rows", rows}};
    std::cout << result.dump(1) << std::endl;
  }
}

int main_of(int argc, char** argv) {
  Options options;
  for (std::size_t bytes = 4096; bytes <= std::size_t{128} << 20; bytes *= 2)
    options.sizes.push_back(bytes);
  CLI::App app("All-reduce of float32: MPI_Allreduce and kolo, side by side");
  app.add_option("--sizes", options.sizes, "Bytes, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(std::size_t{4}, std::size_t{1} << 32));
  app.add_option("--seconds", options.seconds, "Time for each size")->check(CLI::PositiveNumber);
  app.add_option("--staging-bytes", options.mpi.staging_bytes, "Staging area of a rank");
  app.add_option("--whole-limit", options.mpi.whole_limit_bytes,
                 "Bytes up to which every rank reduces the whole buffer");
  app.add_flag("!--no-gloo", options.has_gloo, "Without PyTorch's gloo");
  app.add_flag("--json", options.json, "Print one JSON object");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  return kolo::main_of(argc, argv);
}
