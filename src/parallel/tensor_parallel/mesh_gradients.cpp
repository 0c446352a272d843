#include "kolo/parallel/mesh_gradients.h"

#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/parallel/parameter_parts.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// What adds up over tensors: the sum of powers, or for the infinity norm the maximum.
class PowerSum {
 public:
  explicit PowerSum(double norm_type) : norm_type_(norm_type) {}

  void add(const torch::Tensor& gradient) {
    const auto norm = gradient.norm(norm_type_, torch::kDouble).item<double>();
    // A NaN is larger than nothing, and would be lost.
    if (norm_type_ == infinity) {
      sum_ = std::isnan(norm) || norm > sum_ ? norm : sum_;
    } else {
      sum_ += std::pow(norm, norm_type_);
    }
  }
  void combine(const Communicator& ranks) {
    if (ranks.size() == 1) return;
    const auto op = norm_type_ == infinity ? ReduceOp::max : ReduceOp::sum;
    ranks.all_reduce(std::span(&sum_, 1), op, {.name = "mesh gradient norm"});
  }
  [[nodiscard]] double norm() const {
    return norm_type_ == infinity ? sum_ : std::pow(sum_, 1 / norm_type_);
  }

 private:
  double norm_type_;
  double sum_ = 0;
};

}  // namespace

void sum_sequence_gradients(const Communicator& group, const torch::nn::Module& module) {
  if (group.size() == 1) return;
  const auto parameters = module.named_parameters();
  std::vector<torch::Tensor> gradients;
  for (const auto& name : sequence_parameters(module)) {
    const auto& gradient = parameters[name].grad();
    if (!gradient.defined()) {
      throw Error(fmt::format(
          "parallel: sum of gradients over parts of a sequence: {} has none on rank {}; call it "
          "after backward(), and after the reducer's finish()",
          name, group.rank()));
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
  std::set<std::string> cut;
  for (const auto& parameter : cut_parameters(module)) cut.insert(parameter.name);
  const auto& group = mesh.axis(MeshAxis::tensor);
  PowerSum sum(norm_type);
  for (const auto& item : module.named_parameters()) {
    const auto& gradient = item.value().grad();
    // One rank counts what all have.
    if (gradient.defined() && (group.rank() == 0 || cut.contains(item.key()))) sum.add(gradient);
  }
  sum.combine(group);
  sum.combine(mesh.axis(MeshAxis::pipe));
  return sum.norm();
}

double clip_gradient_norm(const DeviceMesh& mesh, const torch::nn::Module& module,
                          double maximum_norm, double norm_type) {
  const double norm = mesh_gradient_norm(mesh, module, norm_type);
  const double factor = maximum_norm / (norm + 1e-6);
  if (!std::isfinite(norm) || factor >= 1) return norm;
  const torch::NoGradGuard no_gradient;
  for (const auto& parameter : module.parameters())
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(factor);
  return norm;
}

}  // namespace kolo
