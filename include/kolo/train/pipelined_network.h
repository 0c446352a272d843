#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kolo/layout/pipeline_schedule.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/device_mesh.h"
#include "kolo/parallel/pipeline_step.h"
#include "kolo/train/trained_network.h"

namespace kolo {

struct PipelinedNetworkOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int micro_batches = 1;
  std::vector<std::size_t> bounds;  // of the parts, as PipelineStepOptions has them
  bool recompute = false;           // see kolo/nn/network.h
  std::uint64_t seed = 1;           // of dropout (see PipelineStepOptions)
  Timeline timeline = {};
};

// A network of which each rank along the mesh's axis `pipe` has some stages (PipelineStep), trained
// along the other axes as whole ones are. The ranks of a pipeline are given the same batches, the
// samples of the first micro-batch first. Gradients are those of a whole network that is given the
// micro-batches one after another. Batch norms see micro-batches.
class PipelinedNetwork final : public TrainedNetwork {
 public:
  // `stages`: the whole network's chain, the same on all ranks; this rank's part is kept.
  // `network`: that network, for its names. InputError where the stages lack a part of it, and as
  // PipelineStep's. Collective.
  PipelinedNetwork(const DeviceMesh& mesh, const torch::nn::Module& network,
                   std::vector<NetworkStage> stages, Objective objective,
                   const PipelinedNetworkOptions& options);

  [[nodiscard]] const std::shared_ptr<torch::nn::Module>& module() const override {
    return pipeline_.module();
  }
  [[nodiscard]] const Objective& objective() const override { return objective_; }
  [[nodiscard]] const Communicator& replicas() const override { return mesh_.replicas(); }
  [[nodiscard]] const NetworkParts* parts() const override { return &parts_; }

  // Error for a batch that is not as many micro-batches of equal size.
  [[nodiscard]] TrainingStep::Pending make(TrainingStep& training, const Step& step) override;
  // Takes batches of any size: the last micro-batch may be smaller than the others.
  [[nodiscard]] torch::Tensor measure(const Batch& batch) override;

  // See PipelineStep.
  [[nodiscard]] PipelineStep::IdleTime take_idle_time() { return pipeline_.take_idle_time(); }

 private:
  DeviceMesh mesh_;
  Objective objective_;
  PipelinedNetworkOptions options_;
  NetworkParts parts_;
  PipelineStep pipeline_;
};

}  // namespace kolo
