#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kolo/data/loader.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/training_step.h"
#include "kolo/train/trained_network.h"
#include "kolo/train/trainer.h"
#include "train/batch_task.h"

namespace kolo {

// Gives a training's steps to the device as one graph where it can: the first batch's shape is
// recorded after a few steps, and batches of another one (the last of an epoch) go operator by
// operator.
class RecordedSteps {
 public:
  // Makes step number `number`. `pass` calls backward() of the step, and must do the same with
  // every batch. Collective: the ranks' batches have the same shape.
  using Pass = std::function<void(const Batch&)>;
  [[nodiscard]] TrainingStep::Pending make(TrainingStep& step, const Batch& batch, const Pass& pass,
                                           double learning_rate, std::int64_t number);

 private:
  [[nodiscard]] bool fits(const Batch& batch) const;

  std::optional<Batch> fixed_;  // which the graph reads
  std::int64_t steps_before_ = 0;
  std::shared_ptr<TrainingStep::Recorded> recorded_;
};

// A network that every rank has all of: a step is one forward and one backward pass.
class WholeNetwork final : public TrainedNetwork {
 public:
  // Takes of the options how batches are mixed, what random numbers depend on, and whether steps
  // are recorded or inner results recomputed. InputError for a network without stages that is to
  // recompute.
  WholeNetwork(Communicator communicator, std::shared_ptr<Network> network, Objective objective,
               const TrainerOptions& options);

  [[nodiscard]] const std::shared_ptr<torch::nn::Module>& module() const override {
    return module_;
  }
  [[nodiscard]] const Objective& objective() const override { return objective_; }
  [[nodiscard]] const Communicator& replicas() const override { return communicator_; }

  [[nodiscard]] TrainingStep::Pending make(TrainingStep& training, const Step& step) override;
  [[nodiscard]] torch::Tensor measure(const Batch& batch) override;

 private:
  [[nodiscard]] BatchTask::Result forward(const BatchTask& task);
  [[nodiscard]] torch::Tensor outputs_of(const torch::Tensor& inputs);
  [[nodiscard]] TrainingStep::Pending make_parts(TrainingStep& training, const Step& step);
  [[nodiscard]] TrainingStep::Pending make_recorded(TrainingStep& training, const Step& step);
  // `rank`: whose random numbers.
  void seed_for(int rank, std::int64_t steps_before) const;

  Communicator communicator_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<torch::nn::Module> module_;  // the same
  Objective objective_;
  Mixing mixing_;
  bool is_in_parts_;
  std::int64_t accumulation_;
  torch::Device device_;
  std::vector<NetworkStage> recomputed_;           // none: inner results are kept
  std::unique_ptr<RecordedSteps> recorded_steps_;  // none: operator by operator
};

}  // namespace kolo
