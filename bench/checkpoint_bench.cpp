// Times how long training stands still for a checkpoint, and how fast it is written:
//
//   checkpoint_bench FOLDER [--megabytes 1400] [--rounds 5]
//
// A state of so many MB, as the U-Net of configs/unet3d.yaml and Adam have (a third of it weights),
// is saved in FOLDER: "synchronous" waits until it is on disk; "asynchronous" takes a snapshot,
// whose writing goes on behind it and is timed by itself. "copy" is memcpy by one thread of as many
// bytes to memory that was written before, and "copy, all threads" that of LibTorch's: what memory
// allows. Seconds and GB/s, medians of the rounds; the first snapshot, which gets its memory, is
// apart. Threads: OMP_NUM_THREADS.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>
#include <CLI/CLI.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/statistics.h"
#include "kolo/parallel/checks.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint/snapshot_memory.h"

namespace kolo {
namespace {

struct Options {
  std::filesystem::path folder;
  std::int64_t megabytes = 1400;
  int rounds = 5;
};

Checkpoint make_state(const Options& options) {
  constexpr std::int64_t elements_each = 5'000'000;  // 20 MB, as a deep layer has
  const auto tensors = std::max<std::int64_t>(1, options.megabytes / 60);
  Checkpoint state;
  for (std::int64_t i = 0; i < tensors; ++i) {
    const auto name = fmt::format("layer{}.weight", i);
    state.model.push_back({name, torch::rand({elements_each})});
    state.optimizer.push_back({name + ".exp_avg", torch::rand({elements_each})});
    state.optimizer.push_back({name + ".exp_avg_sq", torch::rand({elements_each})});
  }
  return state;
}

std::uint64_t bytes_of(const Checkpoint& state) {
  return SnapshotMemory::bytes_for(state.model) + SnapshotMemory::bytes_for(state.optimizer);
}

Checkpoint copied(const Checkpoint& state, SnapshotMemory& memory) {
  memory.clear();
  Checkpoint copy{{}, {}, state.state};
  const auto take = [&](const NamedTensor& item) -> NamedTensor {
    if (!is_finite(item.tensor)) throw Error("bench: a state that is not finite");
    return {item.name, memory.copy(item.tensor)};
  };
  for (const auto& item : state.model) copy.model.push_back(take(item));
  for (const auto& item : state.optimizer) copy.optimizer.push_back(take(item));
  return copy;
}

template <typename Work>
double seconds_of(const Work& work) {
  const Stopwatch watch;
  work();
  return watch.seconds();
}

void print(const std::string& name, std::vector<double> seconds, std::uint64_t bytes) {
  const double middle = median(std::move(seconds));
  std::cout << fmt::format("{:34}{:8.3f} s {:8.2f} GB/s\n", name, middle,
                           1e-9 * static_cast<double>(bytes) / middle);
}

void measure_copies(const Checkpoint& state, const Options& options) {
  const auto bytes = bytes_of(state);
  std::vector<torch::Tensor> targets;
  for (const auto& item : state.optimizer) targets.push_back(torch::zeros_like(item.tensor));
  std::vector<double> one, all;
  std::uint64_t moved = 0;
  for (const auto& target : targets) moved += target.nbytes();
  for (int round = 0; round < options.rounds; ++round) {
    one.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < targets.size(); ++i)
        std::memcpy(targets[i].data_ptr(), state.optimizer[i].tensor.data_ptr(),
                    targets[i].nbytes());
    }));
    all.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < targets.size(); ++i) targets[i].copy_(state.optimizer[i].tensor);
    }));
  }
  const double scale = static_cast<double>(bytes) / static_cast<double>(moved);
  for (auto* const seconds : {&one, &all})
    for (auto& each : *seconds) each *= scale;
  print("copy", one, bytes);
  print("copy, all threads", all, bytes);
}

void measure(const Options& options) {
  const auto state = make_state(options);
  const auto bytes = bytes_of(state);
  std::cout << fmt::format("{:.2f} GB, {} threads\n", 1e-9 * static_cast<double>(bytes),
                           torch::get_num_threads());
  measure_copies(state, options);
  CheckpointStore store({options.folder, 1});
  std::int64_t step = 0;
  std::vector<double> synchronous, stalls, writes;
  for (int round = 0; round < options.rounds; ++round)
    synchronous.push_back(seconds_of([&] { (void)store.save(++step, state, false); }));
  print("synchronous", synchronous, bytes);
  auto memory = std::optional<SnapshotMemory>();
  const double got = seconds_of([&] { memory = SnapshotMemory::get(bytes); });
  if (!memory) throw Error("checkpoint_bench: there is not enough memory for a copy");
  for (int round = 0; round < options.rounds; ++round) {
    std::future<double> writing;
    stalls.push_back(seconds_of([&] {
      writing = std::async(std::launch::async, [&, content = copied(state, *memory)] {
        return seconds_of([&] { (void)store.save(++step, content, false); });
      });
    }));
    writes.push_back(writing.get());
  }
  print("getting memory, in the background", {got}, bytes);
  print("asynchronous: stall", stalls, bytes);
  print("asynchronous: writing", writes, bytes);
  store.remove_after(-1);
  std::vector<double> reads;
  (void)store.save(0, state, false);
  for (int round = 0; round < std::min(options.rounds, 3); ++round)
    reads.push_back(seconds_of([&] { (void)store.load_newest([](const auto&) {}); }));
  print("reading and verifying", reads, bytes);
  store.remove_after(-1);
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  kolo::Options options;
  CLI::App app("Stall and bandwidth of checkpoints");
  app.add_option("folder", options.folder, "where to save")->required();
  app.add_option("--megabytes", options.megabytes)->check(CLI::Range(60, 1'000'000));
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    kolo::measure(options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
