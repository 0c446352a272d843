#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/nn/network_replica.h"
#include "online/samples.h"

namespace kolo::online {

// State that infer() computes with: the weights of one version, and how its arrays are normalized.
// Tensors may be those that are trained (live), or copies.
struct Weights {
  std::int64_t version = 0;
  std::vector<torch::Tensor> parameters, buffers;
  std::shared_ptr<const Normalization> normalization = std::make_shared<Normalization>();

  // A module's own tensors.
  [[nodiscard]] static Weights of(const torch::nn::Module& module);
  // The same values in memory of their own.
  [[nodiscard]] Weights copy() const;
  [[nodiscard]] std::vector<torch::Tensor> tensors() const;
  // Covers all values; a change of any element changes it.
  [[nodiscard]] std::uint64_t checksum() const;
};

// A module's weights as they are now, asked for after each step: its tensors are looked up once,
// and again only when their memory has moved, as an arena moves it after the first step.
class LiveWeights {
 public:
  explicit LiveWeights(const torch::nn::Module& module);
  [[nodiscard]] const Weights& now();

 private:
  std::vector<torch::Tensor> tensors_;  // the module's own
  std::vector<const void*> places_;
  std::size_t n_parameters_;
  Weights weights_;
};

using MakeNetwork = std::function<std::shared_ptr<TensorsNetwork>()>;

// Answers with the newest weights that it was given, on any number of threads: each call takes a
// replica of the network for itself, which is made where all are taken. Weights that a step changes
// in place are changed under `changes()`.
class Inference {
 public:
  Inference(MakeNetwork make, const OnlineTrainingConfig& training);

  void use(std::shared_ptr<const Weights> weights);
  [[nodiscard]] std::shared_ptr<const Weights> weights() const;
  // No call computes while it is locked.
  [[nodiscard]] std::unique_lock<std::shared_mutex> changes() const;

  void infer(std::span<const Array> inputs, std::span<const Array> outputs, const Call& call) const;
  void warm_up(std::span<const Array> inputs, const Call& call) const;

 private:
  struct Replica {
    NetworkReplica network;
    std::shared_ptr<const Weights> weights;
  };

  // One for a call, with the newest weights; it is free again when nobody holds it.
  [[nodiscard]] std::shared_ptr<Replica> lease() const;
  [[nodiscard]] std::vector<torch::Tensor> outputs_for(const SampleArrays& inputs,
                                                       const Normalization& normalization,
                                                       NetworkReplica& network,
                                                       const Call& call) const;

  MakeNetwork make_;
  OnlineTrainingConfig training_;
  mutable std::shared_mutex changes_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Weights> weights_;
  mutable std::vector<std::shared_ptr<Replica>> free_;
};

}  // namespace kolo::online
