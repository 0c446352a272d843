#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kolo/base/generators.h"
#include "kolo/base/random.h"
#include "kolo/parallel/device_memory.h"
#include "train/batches.h"

namespace kolo {

namespace {

// Steps in which cuDNN tries its algorithms, and everything that is kept is allocated.
constexpr std::int64_t steps_before_capture = 3;

bool is_alike(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

// A step is one forward and one backward pass, or several: over pieces of the batch (accumulation),
// or one for each virtual rank.
class WholeNetwork final : public TrainedNetwork {
 public:
  WholeNetwork(Communicator communicator, std::shared_ptr<Network> network, Objective objective,
               const TrainerOptions& options)
      : communicator_(std::move(communicator)),
        network_(std::move(network)),
        module_(network_),
        objective_(std::move(objective)),
        seed_(options.seed),
        has_virtual_ranks_(options.virtual_ranks > 0),
        accumulation_(options.accumulation),
        device_(device_of(*network_)),
        uses_graph_(options.graphs && !device_.is_cpu()) {
    require_no_conflicts("train", {{StepFeature::virtual_ranks, has_virtual_ranks_},
                                   {StepFeature::accumulation, accumulation_ > 1},
                                   {StepFeature::graphs, uses_graph_},
                                   {StepFeature::recompute, options.recompute}});
    if (options.recompute) recomputed_ = training_stages(objective_, network_->stages(), true);
  }

  [[nodiscard]] const std::shared_ptr<torch::nn::Module>& module() const override {
    return module_;
  }
  [[nodiscard]] const Objective& objective() const override { return objective_; }
  [[nodiscard]] const Communicator& replicas() const override { return communicator_; }

  // Under accumulation a pass's mean loss counts by its share of the samples, so that the gradients
  // add up to those of the batch's mean.
  [[nodiscard]] TrainingStep::Pending make(TrainingStep& training, const Step& step) override {
    if (has_virtual_ranks_) return make_by_virtual_ranks(training, step);
    seed_for(communicator_.rank(), step.number - 1);
    if (uses_graph_) return make_by_graph(training, step);
    training.begin(step.number);
    const auto samples = step.batch.input.size(0);
    const auto passes = std::max<std::int64_t>(1, std::min(accumulation_, samples));
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      const auto first = pass * samples / passes, count = (pass + 1) * samples / passes - first;
      const auto of_pass = [&](const torch::Tensor& batch) {
        return passes == 1 ? batch : batch.narrow(0, first, count);
      };
      const auto [loss, sums] = forward(of_pass(step.batch.input), of_pass(step.batch.target));
      const auto fraction =
          passes == 1 ? 1. : static_cast<double>(count) / static_cast<double>(samples);
      const auto flag = pass == 0 ? step.stop_flag : torch::zeros_like(step.stop_flag);
      training.backward(loss, torch::cat({sums, flag}), fraction, pass + 1 == passes);
    }
    return training.finish(step.learning_rate);
  }

  [[nodiscard]] torch::Tensor measure(const Batch& batch) override {
    return validation_sums(objective_, forward_for(objective_, *network_, batch.input),
                           batch.target);
  }

 private:
  // A pass for each virtual rank of this rank's, with its samples and random numbers.
  [[nodiscard]] TrainingStep::Pending make_by_virtual_ranks(TrainingStep& training,
                                                            const Step& step) {
    training.begin(step.number);
    const auto no_flag = torch::zeros_like(step.stop_flag);
    const auto parts = training.parts();
    for (int part = parts.first; part < parts.end; ++part) {
      seed_for(part, step.number - 1);
      const auto batch = part_of(step.batch, static_cast<std::size_t>(part - parts.first));
      const auto [loss, sums] = forward(batch.input, batch.target);
      training.backward(loss, torch::cat({sums, part == parts.first ? step.stop_flag : no_flag}), 1,
                        part + 1 == parts.end);
    }
    return training.finish(step.learning_rate);
  }

  // Gives steps to the device as one graph: the first batch's shape is captured after a few steps,
  // and batches of another one (the last of an epoch) go operator by operator. The ranks' batches
  // have the same shape.
  [[nodiscard]] TrainingStep::Pending make_by_graph(TrainingStep& training, const Step& step) {
    const auto& given = step.batch;
    const auto pass = [this, &training, stop_flag = step.stop_flag](const Batch& batch) {
      const auto [loss, sums] = forward(batch.input, batch.target);
      training.backward(loss, torch::cat({sums, stop_flag}));
    };
    if (!fixed_)
      fixed_ = Batch{torch::empty_like(given.input), torch::empty_like(given.target), {}, 0};
    const bool fits =
        is_alike(given.input, fixed_->input) && is_alike(given.target, fixed_->target);
    if (!fits || ++steps_before_ <= steps_before_capture) {
      training.begin(step.number);
      pass(given);
      return training.finish(step.learning_rate);
    }
    fixed_->input.copy_(given.input);
    fixed_->target.copy_(given.target);
    if (!captured_)
      captured_ =
          training.capture([this, pass] { pass(*fixed_); }, step.learning_rate, step.number);
    return training.replay(*captured_, step.learning_rate, step.number);
  }

  [[nodiscard]] PipelineStep::Loss forward(const torch::Tensor& input,
                                           const torch::Tensor& target) {
    return in_phase("forward", device_, [&] {
      const auto outputs = recomputed_.empty() ? forward_for(objective_, *network_, input)
                                               : run_stages(recomputed_, {input}).front();
      return training_numbers(objective_, outputs, target);
    });
  }

  // A step's dropout masks depend on nothing that came before, so a resumed run draws the same ones
  // and no generator state is saved. `rank`: whose random numbers.
  void seed_for(int rank, std::int64_t steps_before) const {
    seed_generators(derive_seed(seed_, static_cast<std::uint32_t>(rank),
                                static_cast<std::uint64_t>(steps_before)),
                    device_);
  }

  Communicator communicator_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<torch::nn::Module> module_;  // the same
  Objective objective_;
  std::uint64_t seed_;
  bool has_virtual_ranks_;
  std::int64_t accumulation_;
  torch::Device device_;
  std::vector<NetworkStage> recomputed_;  // none: inner results are kept
  bool uses_graph_;                       // false: steps go operator by operator
  std::optional<Batch> fixed_;            // which the graph reads
  std::int64_t steps_before_ = 0;         // the capture
  std::shared_ptr<TrainingStep::Captured> captured_;
};

}  // namespace

std::shared_ptr<TrainedNetwork> make_whole_network(Communicator communicator,
                                                   std::shared_ptr<Network> network,
                                                   Objective objective,
                                                   const TrainerOptions& options) {
  return std::make_shared<WholeNetwork>(std::move(communicator), std::move(network),
                                        std::move(objective), options);
}

}  // namespace kolo
