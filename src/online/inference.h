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

#include "kolo/nn/loss.h"
#include "kolo/nn/network_replica.h"
#include "online/samples.h"

namespace kolo::online {

// Weights of one version and their normalization, as infer() uses them. The tensors are the trained
// network's own, or copies.
struct Weights {
  std::int64_t version = 0;
  std::vector<torch::Tensor> parameters, buffers;
  std::shared_ptr<const Normalization> normalization = std::make_shared<Normalization>();

  // A module's own tensors, wherever an arena moves their memory.
  [[nodiscard]] static Weights of(const torch::nn::Module& module);
  // The same values in memory of their own.
  [[nodiscard]] Weights copy() const;
  [[nodiscard]] std::vector<torch::Tensor> tensors() const;
  // Checksum over all elements.
  [[nodiscard]] std::uint64_t checksum() const;
};

using MakeNetwork = std::function<std::shared_ptr<TensorsNetwork>()>;

// Computes with the newest weights, on any number of threads: each call leases a replica of the
// network, and a new replica is made if all are leased. Steps change live weights only while they
// hold changes().
class Inference {
 public:
  Inference(MakeNetwork make, const OnlineTrainingConfig& training);

  void use(std::shared_ptr<const Weights> weights);
  [[nodiscard]] std::shared_ptr<const Weights> weights() const;
  // Lock that keeps all calls from computing.
  [[nodiscard]] std::unique_lock<std::shared_mutex> changes() const;

  void infer(std::span<const Array> inputs, std::span<const Array> outputs, const Call& call) const;
  // InputError where the network doesn't take inputs of these shapes, or `loss` not their targets:
  // tries both on one sample of zeros. `loss`: null to try the network alone.
  void require_samples(const SampleShapes& shapes, const TensorsLoss& loss, const Call& call) const;
  void warm_up(std::span<const Array> inputs, const Call& call) const;

 private:
  struct Replica {
    NetworkReplica network;
    std::shared_ptr<const Weights> weights;
  };

  // Leases a replica with the newest weights until the pointer is released.
  [[nodiscard]] std::shared_ptr<Replica> lease() const;
  [[nodiscard]] bool has_batch() const { return training_.samples != SampleKind::whole; }
  // Error that names the call and the inputs' shapes where the network fails.
  [[nodiscard]] static std::vector<torch::Tensor> outputs_for(
      const std::vector<torch::Tensor>& inputs, const TensorShapes& shapes, NetworkReplica& network,
      const Call& call);

  MakeNetwork make_;
  OnlineTrainingConfig training_;
  mutable std::shared_mutex changes_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Weights> weights_;
  mutable std::vector<std::shared_ptr<Replica>> free_;
};

}  // namespace kolo::online
