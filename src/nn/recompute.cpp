#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "kernels/fused.h"
#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/graph_beginning.h"
#include "kolo/base/graph_node.h"
#include "kolo/kernels/autocast.h"
#include "kolo/nn/network.h"

namespace kolo {

namespace {

// Type that the calling thread's operations on a kind of device are cast to.
Precision autocast_of(at::DeviceType device) {
  if (!autocast_details::is_enabled(device)) return Precision::fp32;
  return autocast_details::type(device) == at::kHalf ? Precision::fp16 : Precision::bf16;
}

// Turns the cache of cast weights off: those cast without gradients can't be used with them.
class WithoutCastCache {
 public:
  WithoutCastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  WithoutCastCache(const WithoutCastCache&) = delete;
  WithoutCastCache& operator=(const WithoutCastCache&) = delete;
  ~WithoutCastCache() { at::autocast::set_autocast_cache_enabled(before_); }

 private:
  bool before_;
};

// Keeps a stage's buffers, to put them back. Not counted by autograd as a change: graphs of other
// passes may hold them.
class BufferValues {
 public:
  explicit BufferValues(const NetworkStage& stage) {
    for (const auto& part : stage.modules) {
      for (const auto& buffer : part.module->buffers())
        values_.emplace_back(buffer, buffer.detach().clone());
    }
  }
  void restore() const {
    const torch::NoGradGuard no_gradient;
    for (const auto& [buffer, value] : values_) buffer.variable_data().copy_(value);
  }

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> values_;
};

// A stage that is run on copies of the inputs that it changes in place, which its first pass finds
// out.
class RecomputedStage {
 public:
  explicit RecomputedStage(NetworkStage stage) : stage_(std::move(stage)) {}

  [[nodiscard]] const NetworkStage& stage() const { return stage_; }

  // Computes the stage on copies of what it changes. An input that it returns unchanged stays the
  // same tensor.
  StagePayload run(StagePayload payload) {
    const bool is_first = !changes_ || changes_->size() != payload.size();
    const auto given = payload;
    StagePayload copies(payload.size());
    std::vector<std::uint32_t> versions(payload.size(), 0);
    for (std::size_t i = 0; i < payload.size(); ++i) {
      if (!is_first && !(*changes_)[i]) continue;
      payload[i] = copies[i] = payload[i].clone();
      versions[i] = copies[i]._version();
    }
    auto outputs = stage_.forward(std::move(payload));
    if (!is_first) return outputs;
    changes_.emplace();
    for (std::size_t i = 0; i < given.size(); ++i) {
      changes_->push_back(copies[i]._version() != versions[i]);
      if (changes_->back()) continue;
      for (auto& output : outputs) {
        if (output.is_same(copies[i])) output = given[i];
      }
    }
    return outputs;
  }

  [[nodiscard]] bool trains() const {
    return std::ranges::any_of(stage_.modules, [](const NetworkStage::NamedModule& part) {
      return std::ranges::any_of(part.module->parameters(), &torch::Tensor::requires_grad);
    });
  }

 private:
  NetworkStage stage_;
  std::optional<std::vector<bool>> changes_;  // by input; unknown before the first pass
};

// Node of the graph in place of all that a stage computes.
class Recomputation final : public torch::autograd::Node {
 public:
  Recomputation(std::shared_ptr<RecomputedStage> stage, StagePayload inputs)
      : stage_(std::move(stage)),
        inputs_(std::move(inputs)),
        device_(inputs_.front().device()),
        autocast_(autocast_of(device_.type())),
        is_plain_(PlainKernels::are_wanted()),
        generators_(device_) {
    for (const auto& input : inputs_) {
      versions_.push_back(input._version());
      add_next_edge(input.requires_grad() ? torch::autograd::impl::gradient_edge(input)
                                          : torch::autograd::Edge());
    }
  }

  // `outputs`: of the first pass, without a graph. Inputs that the stage returns are no results of
  // its own.
  [[nodiscard]] StagePayload attach(StagePayload outputs, const GraphNode& self) {
    for (auto& output : outputs) {
      const bool is_result = std::ranges::none_of(
          inputs_, [&](const torch::Tensor& input) { return input.is_same(output); });
      is_result_.push_back(is_result && torch::isFloatingType(output.scalar_type()));
      if (!is_result_.back()) continue;
      output = output.detach();
      torch::autograd::impl::set_gradient_edge(output, {self, add_input_metadata(output)});
    }
    return outputs;
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    require_inputs();
    GraphBeginning beginning;
    auto outputs = run_again(beginning);
    StagePayload roots, slopes;
    std::size_t next = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!is_result_[i]) continue;
      const auto& gradient = gradients[next++];
      if (!gradient.defined() || !outputs[i].requires_grad()) continue;
      roots.push_back(std::move(outputs[i]));
      slopes.push_back(gradient);
    }
    outputs.clear();
    if (!roots.empty()) torch::autograd::backward(roots, slopes);
    auto found = beginning.take_gradients();
    torch::autograd::variable_list of_inputs;
    auto each = found.begin();
    for (const auto& input : inputs_)
      of_inputs.push_back(input.requires_grad() ? std::move(*each++) : torch::Tensor());
    return of_inputs;
  }

  void release_variables() override {
    inputs_.clear();
    is_released_ = true;
  }

 private:
  void require_inputs() const {
    if (is_released_) {
      throw Error(
          fmt::format("nn: stage {} is to be recomputed a second time; with retain_graph it can be",
                      stage_->stage().name));
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i]._version() == versions_[i]) continue;
      throw Error(
          fmt::format("nn: input {} of stage {} was changed in place after its forward pass, so it "
                      "can't be recomputed; use an operation that makes a new tensor",
                      i, stage_->stage().name));
    }
  }

  [[nodiscard]] StagePayload run_again(GraphBeginning& beginning) const {
    const torch::AutoGradMode with_gradients(true);
    const AutocastGuard autocast(autocast_, device_.type());
    const PlainKernels plain(is_plain_);
    const GeneratorStates now(device_);
    const BufferValues buffers(stage_->stage());
    generators_.restore();
    StagePayload inputs;
    for (const auto& input : inputs_)
      inputs.push_back(input.requires_grad() ? beginning.attach(input) : input.detach());
    auto outputs = stage_->run(std::move(inputs));
    now.restore();
    buffers.restore();
    return outputs;
  }

  std::shared_ptr<RecomputedStage> stage_;
  StagePayload inputs_;
  torch::Device device_;
  // Modes of the first pass's thread, which LibTorch's engine doesn't take to backward.
  Precision autocast_;
  bool is_plain_;
  GeneratorStates generators_;
  std::vector<std::uint32_t> versions_;
  std::vector<bool> is_result_;  // by output
  bool is_released_ = false;
};

StagePayload run_recomputed(const std::shared_ptr<RecomputedStage>& stage, StagePayload payload) {
  const bool needs_gradients =
      at::GradMode::is_enabled() && !payload.empty() &&
      (stage->trains() || std::ranges::any_of(payload, &torch::Tensor::requires_grad));
  if (!needs_gradients) return stage->run(std::move(payload));
  const auto node = make_graph_node<Recomputation>(stage, payload);
  StagePayload outputs;
  {
    const torch::NoGradGuard no_gradient;
    const WithoutCastCache no_cache;
    outputs = stage->run(std::move(payload));
  }
  return node->attach(std::move(outputs), node);
}

}  // namespace

std::vector<NetworkStage> recomputed(std::vector<NetworkStage> stages) {
  for (auto& stage : stages) {
    const auto kept = std::make_shared<RecomputedStage>(stage);
    stage.forward = [kept](StagePayload payload) {
      return run_recomputed(kept, std::move(payload));
    };
  }
  return stages;
}

}  // namespace kolo
