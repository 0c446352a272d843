#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/kernels/precision.h"
#include "kolo/nn/network.h"
#include "kolo/study/bench.h"
#include "kolo/train/observe/bench_records.h"
#include "kolo/train/trainer.h"

// The measuring behind `kolo bench`.
namespace kolo {

// Measures on this rank. Trials follow each other without a pause, so that the loader's queue is as
// full as during a training. The device is waited for where a trial begins and ends, and nowhere
// else; parts of steps have the device's own times (DeviceClock). Collective.
//
// The loader alone.
[[nodiscard]] std::vector<BenchTrial> measure_loader(const Communicator& communicator,
                                                     Loader& loader, const BenchPlan& plan);
// Training steps on the loader's batches, or on the first one again and again.
enum class BatchUse : std::uint8_t { all, first_again };
[[nodiscard]] std::vector<BenchTrial> measure_training(const Communicator& communicator,
                                                       Trainer& trainer, Loader& loader,
                                                       const BenchPlan& plan,
                                                       BatchUse use = BatchUse::all);

// First batch of an epoch.
[[nodiscard]] Batch first_batch(Loader& loader);

// Every rank's value, by rank. Collective.
template <typename T>
[[nodiscard]] std::vector<T> gather_values(const Communicator& communicator, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(communicator.size()));
  const auto bytes = static_cast<std::int64_t>(sizeof mine);
  communicator.all_gather(ConstBuffer(&mine, bytes, DataType::uint8),
                          Buffer(all.data(), bytes * communicator.size(), DataType::uint8));
  return all;
}

// For kolo-simulate: a step without communication, and collectives without a step.

// A trainer's steps on one batch, on all ranks at once, without averaging gradients
// (ReducerOptions::communicate is false). The caller fills in what the trainer's options decide,
// and the data wait. Collective.
[[nodiscard]] StepProfile measure_profile(const Communicator& communicator, Trainer& trainer,
                                          const Network& network, Loader& loader,
                                          const BenchPlan& plan);

// Times of the layers of a step on one batch, without communication, and what they could take. All
// ranks measure at the same time; `network` is the trainer's. On CPUs. Collective.
[[nodiscard]] LayerProfile measure_layers(const Communicator& communicator, Trainer& trainer,
                                          Network& network, Loader& loader, Precision precision,
                                          const BenchPlan& plan);

// Medians of many calls, of sizes that double until one takes half a second: asynchronous
// all-reduces of 4 KiB to 64 MiB of float32, in memory that every rank has just written, from
// Communicator::allocate() or, by the device's times, on this rank's device; then messages of up to
// 16 MiB that pairs of neighbours send each other. Collective.
[[nodiscard]] CollectiveMeasurement measure_collectives(const Communicator& communicator,
                                                        const torch::Device& device = torch::kCPU);

// Layout of a measurement's ranks: how many are on the fullest node, and the processors of this
// node that the process may use.
[[nodiscard]] RankLayout rank_layout(const Communicator& communicator);

}  // namespace kolo
