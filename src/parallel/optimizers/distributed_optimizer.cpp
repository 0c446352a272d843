#include "kolo/parallel/distributed_optimizer.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/parallel/synchronize_buffers.h"

namespace kolo {

namespace {

// Throws unless the optimizer has all trainable parameters of the module and none of others.
std::shared_ptr<torch::optim::Optimizer> checked(std::shared_ptr<torch::optim::Optimizer> optimizer,
                                                 const torch::nn::Module& module) {
  if (!optimizer) throw Error("parallel: DistributedOptimizer needs an optimizer");
  std::set<const torch::TensorImpl*> optimized, known;
  std::vector<std::string> problems;
  for (const auto& parameter : module.parameters()) known.insert(parameter.unsafeGetTensorImpl());
  for (std::size_t group = 0; group < optimizer->param_groups().size(); ++group) {
    for (const torch::Tensor& parameter : optimizer->param_groups()[group].params()) {
      optimized.insert(parameter.unsafeGetTensorImpl());
      if (known.contains(parameter.unsafeGetTensorImpl())) continue;
      problems.push_back(fmt::format("a tensor of [{}] in its group {} is not the module's",
                                     fmt::join(parameter.sizes(), ", "), group));
    }
  }
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad() && !optimized.contains(item.value().unsafeGetTensorImpl()))
      problems.push_back(fmt::format("it lacks {}", item.key()));
  }
  if (problems.empty()) return optimizer;
  throw Error(
      fmt::format("parallel: the optimizer doesn't fit the module: {}; make it from "
                  "module.parameters(), of the module that is given here",
                  fmt::join(problems, ", ")));
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(const Communicator& communicator,
                                           const torch::nn::Module& module,
                                           std::shared_ptr<torch::optim::Optimizer> optimizer,
                                           const DistributedOptimizerOptions& options)
    : communicator_(communicator),
      module_(module),
      optimizer_(checked(std::move(optimizer), module)),
      options_(options),
      reducer_(communicator, module, options.reducer) {}

void DistributedOptimizer::zero_grad() {
  reducer_.clear_gradients();
}

void DistributedOptimizer::finish_gradients() {
  reducer_.finish();
  if (options_.maximum_gradient_norm)
    gradient_norm_ = reducer_.clip_gradient_norm(*options_.maximum_gradient_norm);
}

void DistributedOptimizer::step() {
  finish_gradients();
  optimizer_->step();
  if (options_.broadcast_buffers) synchronize_buffers(communicator_, module_);
}

torch::Tensor DistributedOptimizer::step(const LossClosure& closure) {
  const torch::Tensor result = optimizer_->step([&] {
    const torch::Tensor loss = closure();
    finish_gradients();
    double value = loss.item<double>();
    if (options_.reducer.communicate)
      value = all_reduce_value(communicator_, value, ReduceOp::average);
    return torch::full_like(loss.detach(), value);
  });
  if (options_.broadcast_buffers) synchronize_buffers(communicator_, module_);
  return result;
}

}  // namespace kolo
