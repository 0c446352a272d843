#include "kolo/parallel/stage_costs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "parallel/pipeline/stage_graph.h"

namespace kolo {

namespace {

using parallel::StageGraph;

// What passes change, put back at the end.
class StageStates {
 public:
  explicit StageStates(std::span<const NetworkStage> stages) {
    for (const auto& stage : stages) {
      for (const auto& part : stage.modules) {
        for (auto& parameter : part.module->parameters()) {
          gradients_.emplace_back(parameter, parameter.grad());
          parameter.mutable_grad() = torch::Tensor();
        }
        for (const auto& buffer : part.module->buffers())
          buffers_.emplace_back(buffer, buffer.detach().clone());
      }
    }
  }
  StageStates(const StageStates&) = delete;
  StageStates& operator=(const StageStates&) = delete;
  ~StageStates() {
    const torch::NoGradGuard no_gradient;
    for (auto& [parameter, gradient] : gradients_) parameter.mutable_grad() = gradient;
    for (const auto& [buffer, value] : buffers_) torch::Tensor(buffer).copy_(value);
  }

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> gradients_, buffers_;
  KeepGenerators generators_;
};

// A device is done with a tensor when the host can read from it.
void wait_for(const StagePayload& payload) {
  for (const auto& tensor : payload) {
    if (!tensor.defined() || tensor.device().is_cpu() || tensor.numel() == 0) continue;
    (void)tensor.detach().flatten()[0].to(torch::kCPU);
  }
}

std::int64_t bytes_of(const StagePayload& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors)
    bytes += checked_multiply<std::int64_t>(tensor.numel(),
                                            static_cast<std::int64_t>(tensor.element_size()));
  return bytes;
}

struct Pass {
  double seconds = 0;
  StagePayload outputs;  // without a graph
  std::vector<bool> needs;
};

Pass pass_through(const NetworkStage& stage, const StagePayload& inputs,
                  const std::vector<bool>& needs) {
  StagePayload given;  // may be changed in place
  for (const auto& input : inputs) given.push_back(input.clone());
  wait_for(given);
  const Stopwatch watch;
  StageGraph graph;
  auto outputs = stage.forward(graph.begin(std::move(given), needs));
  Pass pass;
  StagePayload slopes;
  for (const auto& output : outputs) {
    pass.outputs.push_back(output.detach());
    pass.needs.push_back(output.requires_grad());
    if (output.requires_grad()) slopes.push_back(torch::ones_like(output));
  }
  graph.end(std::move(outputs));
  wait_for(graph.backward(slopes));
  pass.seconds = watch.seconds();
  return pass;
}

std::vector<ChainStage> measured(std::span<const NetworkStage> stages,
                                 const torch::Tensor& micro_batch,
                                 const StageMeasurement& options) {
  const StageStates states(stages);
  const torch::AutoGradMode with_gradients(true);
  std::vector<ChainStage> costs;
  StagePayload payload{micro_batch};
  std::vector<bool> needs{false};
  for (const auto& stage : stages) {
    ChainStage cost{.seconds = std::numeric_limits<double>::infinity()};
    Pass pass;
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      pass = pass_through(stage, payload, needs);
      cost.seconds = std::min(cost.seconds, pass.seconds);
    }
    payload = std::move(pass.outputs);
    needs = std::move(pass.needs);
    if (costs.size() + 1 < stages.size()) cost.bytes_after = bytes_of(payload);
    for (const auto& part : stage.modules)
      cost.memory_bytes += bytes_of(part.module->parameters()) * options.parameter_copies;
    costs.push_back(cost);
  }
  return costs;
}

}  // namespace

std::vector<ChainStage> measure_stages(const Communicator& communicator,
                                       std::span<const NetworkStage> stages,
                                       const torch::Tensor& micro_batch,
                                       const StageMeasurement& options) {
  if (options.repeats < 1) {
    throw InputError(
        fmt::format("parallel: pipeline: stages to be measured {} times, expected 1 "
                    "or more",
                    options.repeats));
  }
  std::vector<ChainStage> costs(stages.size());
  if (communicator.rank() == 0) costs = measured(stages, micro_batch, options);
  std::vector<double> seconds;
  std::vector<std::int64_t> bytes;
  for (const auto& cost : costs) {
    seconds.push_back(cost.seconds);
    bytes.insert(bytes.end(), {cost.bytes_after, cost.memory_bytes});
  }
  communicator.broadcast(std::span(seconds), 0, {.name = "times of stages"});
  communicator.broadcast(std::span(bytes), 0, {.name = "sizes of stages"});
  for (std::size_t i = 0; i < costs.size(); ++i)
    costs[i] = {seconds[i], bytes[2 * i], bytes[2 * i + 1]};
  return costs;
}

}  // namespace kolo
