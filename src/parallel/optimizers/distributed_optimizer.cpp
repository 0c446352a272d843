#include "kolo/parallel/distributed_optimizer.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/parallel/synchronize_buffers.h"
#include "parallel/optimizers/closure_loss.h"
#include "parallel/optimizers/option_groups.h"

namespace kolo {

namespace {

// Throws unless the optimizer has all trainable parameters of the module and none of others.
torch::optim::Optimizer& checked(const std::shared_ptr<torch::optim::Optimizer>& optimizer,
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
  if (problems.empty()) return *optimizer;
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
    : Optimizer(checked(optimizer, module).param_groups(), optimizer->defaults().clone()),
      communicator_(communicator),
      module_(module),
      optimizer_(std::move(optimizer)),
      groups_(std::make_unique<parallel::OptionGroups>(*optimizer_, *this)),
      known_groups_(optimizer_->param_groups().size()),
      options_(options),
      reducer_(communicator, module, options.reducer) {}

DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::zero_grad(bool set_to_none) {
  if (set_to_none) return reducer_.clear_gradients();
  const torch::NoGradGuard no_gradient;
  for (const torch::Tensor& parameter : module_.parameters()) {
    if (torch::Tensor gradient = parameter.grad(); gradient.defined()) gradient.zero_();
  }
}

void DistributedOptimizer::meet() const {
  groups_->meet();
  if (Optimizer::param_groups().size() > known_groups_) (void)checked(optimizer_, module_);
  known_groups_ = Optimizer::param_groups().size();
}

torch::optim::Optimizer& DistributedOptimizer::inner() {
  meet();
  return *optimizer_;
}

std::vector<torch::optim::OptimizerParamGroup>& DistributedOptimizer::param_groups() {
  meet();
  return Optimizer::param_groups();
}

void DistributedOptimizer::save(torch::serialize::OutputArchive& archive) const {
  meet();
  optimizer_->save(archive);
}

void DistributedOptimizer::load(torch::serialize::InputArchive& archive) {
  meet();
  optimizer_->load(archive);
  meet();
}

void DistributedOptimizer::finish_gradients() {
  reducer_.take_averages();
  if (options_.maximum_gradient_norm)
    gradient_norm_ = reducer_.clip_gradient_norm(*options_.maximum_gradient_norm);
}

torch::Tensor DistributedOptimizer::step(LossClosure closure) {
  meet();
  torch::Tensor result;
  if (closure) {
    result = optimizer_->step([&] {
      const torch::Tensor loss = closure();
      finish_gradients();
      return average_loss(options_.reducer.communicate ? communicator_ : Communicator::solo(),
                          loss);
    });
  } else {
    finish_gradients();
    result = optimizer_->step();
  }
  if (options_.broadcast_buffers) synchronize_buffers(communicator_, module_);
  return result;
}

}  // namespace kolo
