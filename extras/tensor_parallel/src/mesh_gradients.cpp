#include "kolo/tensor_parallel/mesh_gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_norm.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/tensor_parallel/parameter_parts.h"

namespace kolo {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A parameter with all names that it has in a module (tied weights).
struct NamedParameter {
  torch::Tensor tensor;
  std::vector<std::string> names;
};

std::vector<NamedParameter> distinct_parameters(const torch::nn::Module& module) {
  std::vector<NamedParameter> distinct;
  for (const auto& item : module.named_parameters()) {
    const auto same = std::ranges::find_if(
        distinct, [&](const NamedParameter& known) { return known.tensor.is_same(item.value()); });
    if (same == distinct.end())
      distinct.push_back({item.value(), {item.key()}});
    else
      same->names.push_back(item.key());
  }
  return distinct;
}

bool is_among(const NamedParameter& parameter, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return std::ranges::find(parameter.names, name) != parameter.names.end();
  });
}

// Number that adds up over tensors and ranks: the sum of powers, or for the infinity norm the
// maximum.
double power_sum(const std::vector<torch::Tensor>& gradients, double norm_type) {
  if (gradients.empty()) return 0;
  std::vector<torch::Tensor> norms;
  for (const auto& gradient : gradients) norms.push_back(gradient.norm(norm_type, torch::kDouble));
  // One wait for a device, not one per tensor.
  const auto all = torch::stack(norms);
  if (norm_type != infinity) return all.pow(norm_type).sum().item<double>();
  // A maximum over ranks would lose what is not a number.
  const auto highest = all.max().item<double>();
  return std::isnan(highest) ? infinity : highest;
}

double combined(const Communicator& ranks, double sum, double norm_type) {
  if (ranks.size() == 1) return sum;
  const auto op = norm_type == infinity ? ReduceOp::max : ReduceOp::sum;
  ranks.all_reduce(std::span(&sum, 1), op, {.name = "mesh gradient norm"});
  return sum;
}

}  // namespace

void sum_sequence_gradients(const Communicator& group, const torch::nn::Module& module) {
  if (group.size() == 1) return;
  const auto names = sequence_parameters(module);
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : distinct_parameters(module)) {
    if (!is_among(parameter, names)) continue;
    const auto& gradient = parameter.tensor.grad();
    if (!gradient.defined()) {
      throw Error(fmt::format(
          "parallel: sum of gradients over parts of a sequence: {} has none on rank {}; call it "
          "after backward(), and after the reducer's finish()",
          fmt::join(parameter.names, ", "), group.rank()));
    }
    gradients.push_back(gradient);
  }
  if (!gradients.empty()) all_reduce(group, gradients, {.call = {.name = "sequence gradients"}});
}

double mesh_gradient_norm(const DeviceMesh& mesh, const torch::nn::Module& module,
                          double norm_type) {
  if (!(norm_type > 0)) {
    throw InputError(
        fmt::format("parallel: mesh gradient norm: a norm of type {}, expected a number above 0 or "
                    "infinity",
                    norm_type));
  }
  const torch::NoGradGuard no_gradient;
  std::vector<std::string> cut;
  for (const auto& parameter : cut_parameters(module)) cut.push_back(parameter.name);
  const auto& group = mesh.axis(MeshAxis::tensor);
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : distinct_parameters(module)) {
    const auto& gradient = parameter.tensor.grad();
    // One rank counts what all have.
    if (gradient.defined() && (group.rank() == 0 || is_among(parameter, cut)))
      gradients.push_back(gradient);
  }
  auto sum = power_sum(gradients, norm_type);
  sum = combined(group, sum, norm_type);
  sum = combined(mesh.axis(MeshAxis::pipe), sum, norm_type);
  return norm_type == infinity ? sum : std::pow(sum, 1 / norm_type);
}

double clip_gradient_norm(const DeviceMesh& mesh, const torch::nn::Module& module,
                          double maximum_norm, double norm_type) {
  const double norm = mesh_gradient_norm(mesh, module, norm_type);
  const double factor = clip_factor(norm, maximum_norm);
  if (factor == 1) return norm;
  const torch::NoGradGuard no_gradient;
  for (const auto& parameter : distinct_parameters(module))
    if (parameter.tensor.grad().defined()) parameter.tensor.mutable_grad().mul_(factor);
  return norm;
}

}  // namespace kolo
