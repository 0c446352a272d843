#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "kolo/nn/network_replica.h"
#include "online/weights.h"

namespace kolo::online {

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
  // Takes one, and gives it back.
  class Lease;

  [[nodiscard]] std::unique_ptr<Replica> take() const;
  void give_back(std::unique_ptr<Replica> replica) const;
  [[nodiscard]] std::vector<torch::Tensor> outputs_for(const SampleArrays& inputs,
                                                       const Normalization& normalization,
                                                       NetworkReplica& network,
                                                       const Call& call) const;

  MakeNetwork make_;
  OnlineTrainingConfig training_;
  mutable std::shared_mutex changes_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Weights> weights_;
  mutable std::vector<std::unique_ptr<Replica>> free_;
};

}  // namespace kolo::online
