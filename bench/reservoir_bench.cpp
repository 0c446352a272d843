// Times samples on their way through a reservoir, beside the copies that can't be avoided:
//
//   reservoir_bench [--sample 1024] [--capacity 512] [--batch 64] [--rounds 7]
//
// A full reservoir of so many MiB takes new samples, each of which replaces another one (fifo, and
// keep_unseen after a draw; uniform passes more and more over), and batches are drawn and copied
// out. Copies of the same sizes to and from random places of as much memory: what memory allows.
// "draw" is without the copy. Nanoseconds per sample, medians of the rounds; in each round all take
// their turn.
#include <algorithm>
#include <cstring>
#include <functional>
#include <iostream>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/statistics.h"
#include "kolo/sampling/reservoir.h"
#include "kolo/sampling/running_statistics.h"

namespace kolo {
namespace {

struct Options {
  std::int64_t sample_bytes = 1024;
  std::int64_t capacity_mib = 512;
  std::int64_t batch = 64;
  int rounds = 7;
};

struct Pass {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

// Samples of 1 KiB say, as many as fit, in a reservoir that is full.
class FullReservoir {
 public:
  FullReservoir(const Options& options, ReservoirPolicy policy)
      : options_(options),
        sample_(static_cast<std::size_t>(options.sample_bytes), std::byte{1}),
        batch_(static_cast<std::size_t>(options.sample_bytes * options.batch)),
        reservoir_({.policy = policy,
                    .sample_bytes = options.sample_bytes,
                    .capacity_bytes = options.capacity_mib << 20}) {
    push(reservoir_.capacity());
  }

  [[nodiscard]] std::int64_t capacity() const { return reservoir_.capacity(); }
  void push(std::int64_t samples) {
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto place = reservoir_.arrive().memory;
      std::ranges::copy(std::span(sample_).first(place.size()), place.begin());
    }
  }
  void draw(std::int64_t samples) {
    for (std::int64_t i = 0; i < samples; i += options_.batch)
      drawn_ = reservoir_.draw(options_.batch);
  }
  void draw_and_copy(std::int64_t samples) {
    for (std::int64_t i = 0; i < samples; i += options_.batch) {
      std::byte* place = batch_.data();
      for (const auto slot : reservoir_.draw(options_.batch)) {
        const auto sample = reservoir_.sample(slot);
        std::memcpy(place, sample.data(), sample.size());
        place += sample.size();
      }
    }
  }

 private:
  Options options_;
  std::vector<std::byte> sample_, batch_;
  std::vector<std::int64_t> drawn_;
  Reservoir reservoir_;
};

// Copies a sample to random places, or from there to a batch.
class Copies {
 public:
  explicit Copies(const Options& options)
      : options_(options),
        memory_(static_cast<std::size_t>(options.capacity_mib << 20), std::byte{1}),
        batch_(static_cast<std::size_t>(options.sample_bytes * options.batch)) {
    places_.resize(memory_.size() / static_cast<std::size_t>(options.sample_bytes));
    std::iota(places_.begin(), places_.end(), 0);
    std::ranges::shuffle(places_, std::mt19937_64(1));
  }

  void copy(std::int64_t samples, bool in) {
    const auto size = static_cast<std::size_t>(options_.sample_bytes);
    for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
      std::byte* const inside = memory_.data() + places_[i % places_.size()] * size;
      std::byte* const outside =
          batch_.data() + i % static_cast<std::size_t>(options_.batch) * size;
      std::memcpy(in ? inside : outside, in ? outside : inside, size);
    }
  }

 private:
  Options options_;
  std::vector<std::byte> memory_, batch_;
  std::vector<std::size_t> places_;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Samples through a reservoir beside copies");
  app.add_option("--sample", options.sample_bytes, "bytes")->check(CLI::PositiveNumber);
  app.add_option("--capacity", options.capacity_mib, "MiB")->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "samples")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

void run(const Options& options) {
  FullReservoir uniform(options, ReservoirPolicy::uniform), fifo(options, ReservoirPolicy::fifo),
      keep_unseen(options, ReservoirPolicy::keep_unseen);
  Copies copies(options);
  const auto samples = keep_unseen.capacity() / 2 / options.batch * options.batch;
  RunningStatistics statistics(1);
  const std::vector<float> values(static_cast<std::size_t>(samples * options.sample_bytes / 4),
                                  1.F);
  std::vector<Pass> passes{
      {"copy to random places", [&] { copies.copy(samples, true); }},
      {"push, fifo", [&] { fifo.push(samples); }},
      {"push, uniform", [&] { uniform.push(samples); }},
      {"copy from random places", [&] { copies.copy(samples, false); }},
      {"draw and copy, uniform", [&] { uniform.draw_and_copy(samples); }},
      {"draw and copy, keep_unseen", [&] { keep_unseen.draw_and_copy(samples); }},
      {"push, keep_unseen", [&] { keep_unseen.push(samples); }},
      {"draw, uniform", [&] { uniform.draw(samples); }},
      {"statistics of its floats", [&] { statistics.add(0, values); }},
  };
  for (int round = 0; round <= options.rounds; ++round) {
    for (auto& pass : passes) {
      const Stopwatch watch;
      pass.run();
      if (round > 0) pass.seconds.push_back(watch.seconds());  // the first touches the memory
    }
  }
  std::cout << fmt::format("{} samples of {} bytes, in {} MiB, batches of {}\n", samples,
                           options.sample_bytes, options.capacity_mib, options.batch);
  for (const auto& pass : passes) {
    const double each = median(pass.seconds) / static_cast<double>(samples);
    std::cout << fmt::format("{:<28} {:8.1f} ns {:7.2f} GB/s\n", pass.name, 1e9 * each,
                             1e-9 * static_cast<double>(options.sample_bytes) / each);
  }
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  try {
    kolo::run(kolo::parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "reservoir_bench: " << error.what() << std::endl;
    return 1;
  }
}
