#include "kolo/parallel/trained_modules.h"

#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// A module whose children are given.
class Joint final : public torch::nn::Module {
 public:
  void add(const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
    if (!module) throw Error(fmt::format("parallel: module {} to be trained is null", name));
    register_module(name, module);
  }
  void add(const std::string& name, torch::Tensor tensor) {
    if (!tensor.defined() || !tensor.is_leaf()) {
      throw Error(fmt::format(
          "parallel: tensor {} to be trained {}; expected leaves, as backward() gives them "
          "gradients: x.detach().requires_grad_()",
          name,
          tensor.defined() ? fmt::format("of [{}] is the result of an operation",
                                         fmt::join(tensor.sizes(), ", "))
                           : "is undefined"));
    }
    const bool is_trained = tensor.requires_grad();
    register_parameter(name, std::move(tensor), is_trained);
  }
};

}  // namespace

TrainedModules::TrainedModules(const torch::nn::Module& module) : only_(&module) {}

TrainedModules::TrainedModules(const std::vector<std::shared_ptr<torch::nn::Module>>& modules,
                               const std::vector<torch::Tensor>& tensors) {
  if (modules.empty() && tensors.empty())
    throw Error("parallel: no module and no tensor to be trained; expected one or more");
  const auto joint = std::make_shared<Joint>();
  for (std::size_t index = 0; index < modules.size(); ++index)
    joint->add(std::to_string(index), modules[index]);
  if (!tensors.empty()) {
    const auto loose = std::make_shared<Joint>();
    for (std::size_t index = 0; index < tensors.size(); ++index)
      loose->add(std::to_string(index), tensors[index]);
    joint->add("tensors", loose);
  }
  joint_ = joint;
}

}  // namespace kolo
