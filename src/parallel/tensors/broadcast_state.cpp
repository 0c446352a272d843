#include "kolo/parallel/broadcast_state.h"

#include <sstream>
#include <string>
#include <typeinfo>
#include <vector>

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/optim/lbfgs.h>
#include <torch/serialize.h>

#include "kolo/base/error.h"
#include "kolo/parallel/bucket_plan.h"
#include "kolo/parallel/distributed_optimizer.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

ParameterDescription describe(std::string name, const torch::Tensor& tensor) {
  return {std::move(name), tensor.sizes().vec(), data_type_of(tensor.scalar_type())};
}

// `kind`: "buffer".
void broadcast_all(const Communicator& communicator, const std::string& kind,
                   const torch::OrderedDict<std::string, torch::Tensor>& tensors, int root) {
  std::vector<ParameterDescription> descriptions;
  const auto distinct = parallel::distinct_tensors(tensors);
  for (const auto& each : distinct) {
    parallel::require_sendable(each.tensor, kind + " " + each.names());
    descriptions.push_back(describe(each.name, each.tensor));
    descriptions.back().other_names = each.other_names;
  }
  require_equal_plans(communicator, plan_buckets(std::move(descriptions)));
  for (const auto& each : distinct) broadcast(communicator, each.tensor, root, {.name = each.name});
}

void require_equal_optimizers(const Communicator& communicator,
                              const torch::optim::Optimizer& optimizer) {
  std::vector<ParameterDescription> descriptions;
  const auto& groups = optimizer.param_groups();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto kind = c10::demangle(typeid(groups[group].options()).name());
    for (std::size_t i = 0; i < groups[group].params().size(); ++i) {
      descriptions.push_back(describe(fmt::format("{} group {} parameter {}", kind, group, i),
                                      groups[group].params()[i]));
    }
  }
  require_equal_plans(communicator, plan_buckets(std::move(descriptions)));
}

// LibTorch 1.13 loads an optimizer without its options, later ones without the defaults: they are
// written beside it.
template <typename Optimizer, typename Function>
void for_each_options(Optimizer& optimizer, const Function& function) {
  function("defaults", optimizer.defaults());
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group)
    function(fmt::format("options_{}", group), optimizer.param_groups()[group].options());
}

// Scratch memory of L-BFGS, which each step fills before it reads it; it holds undefined tensors,
// which can't be saved.
void drop_scratch(torch::optim::Optimizer& optimizer) {
  for (auto& item : optimizer.state()) {
    if (auto* state = dynamic_cast<torch::optim::LBFGSParamState*>(item.second.get()))
      state->al({});
  }
}

std::string save(torch::optim::Optimizer& optimizer) {
  drop_scratch(optimizer);
  torch::serialize::OutputArchive archive, state(archive.compilation_unit());
  optimizer.save(state);
  archive.write("state", state);
  for_each_options(optimizer,
                   [&](const std::string& name, const torch::optim::OptimizerOptions& options) {
                     torch::serialize::OutputArchive inner(archive.compilation_unit());
                     options.serialize(inner);
                     archive.write(name, inner);
                   });
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void load(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  torch::serialize::InputArchive archive, state;
  archive.load_from(bytes.data(), bytes.size());
  archive.read("state", state);
  if (state.keys().empty()) throw Error("nothing has been saved");  // what save() does by default
  optimizer.state().clear();
  optimizer.load(state);
  for_each_options(optimizer,
                   [&](const std::string& name, torch::optim::OptimizerOptions& options) {
                     torch::serialize::InputArchive inner;
                     archive.read(name, inner);
                     options.serialize(inner);
                   });
}

// Runs what one rank may fail in while others don't. Error on all of them when one does.
template <typename Function>
void together(const Communicator& communicator, const char* what, const Function& function) {
  std::string failure;
  try {
    function();
  } catch (const c10::Error& error) {
    failure = error.what_without_backtrace();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const int failed = all_reduce_value(communicator, failure.empty() ? 0 : 1);
  if (failed == 0) return;
  const auto failures = all_gather_bytes(communicator, failure);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    throw Error(
        fmt::format("parallel: broadcasting an optimizer's state: rank {} could not {} it: "
                    "{}; its save(), load() and its options' serialize() must work",
                    rank, what, failures[rank]));
  }
}

}  // namespace

void broadcast_parameters(const Communicator& communicator, const torch::nn::Module& module,
                          int root) {
  broadcast_all(communicator, "parameter", module.named_parameters(), root);
}

void broadcast_buffers(const Communicator& communicator, const torch::nn::Module& module,
                       int root) {
  broadcast_all(communicator, "buffer", module.named_buffers(), root);
}

void broadcast_optimizer_state(const Communicator& communicator, torch::optim::Optimizer& optimizer,
                               int root) {
  if (auto* const distributed = dynamic_cast<DistributedOptimizer*>(&optimizer)) {
    broadcast_optimizer_state(communicator, distributed->inner(), root);
    (void)distributed->inner();  // its groups have what that has got
    return;
  }
  const torch::NoGradGuard no_gradient;
  require_equal_optimizers(communicator, optimizer);
  std::string bytes;
  together(communicator, "save", [&] {
    if (communicator.rank() == root) bytes = save(optimizer);
  });
  bytes = broadcast_bytes(communicator, bytes, root, {.name = "optimizer state"});
  together(communicator, "load", [&] {
    if (communicator.rank() != root) load(optimizer, bytes);
  });
}

void broadcast_state(const Communicator& communicator, const torch::nn::Module& module,
                     torch::optim::Optimizer& optimizer, int root) {
  broadcast_parameters(communicator, module, root);
  broadcast_buffers(communicator, module, root);
  broadcast_optimizer_state(communicator, optimizer, root);
}

void synchronize_buffers(const Communicator& communicator, const torch::nn::Module& module) {
  if (communicator.size() == 1 || module.buffers().empty()) return;
  // A rank that has joined is left out of the minimum.
  const int root = all_reduce_value(communicator, communicator.rank(), ReduceOp::min);
  std::vector<torch::Tensor> buffers;
  for (const auto& each : parallel::distinct_tensors(module.named_buffers())) {
    parallel::require_sendable(each.tensor, "buffer " + each.names());
    buffers.push_back(each.tensor);
  }
  broadcast(communicator, buffers, root);
}

}  // namespace kolo
