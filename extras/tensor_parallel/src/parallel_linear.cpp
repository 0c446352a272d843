#include "kolo/tensor_parallel/parallel_linear.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <torch/nn/functional/linear.h>
#include <torch/nn/modules/linear.h>

#include "divisible.h"
#include "kolo/base/error.h"
#include "kolo/tensor_parallel/group_functions.h"

namespace kolo {

namespace {

constexpr std::string_view column_name = "column-parallel linear";
constexpr std::string_view row_name = "row-parallel linear";

torch::nn::Linear whole_linear(std::int64_t in, std::int64_t out, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
}

void require_features(std::string_view layer, const torch::Tensor& input, std::int64_t features) {
  if (input.dim() > 0 && input.size(-1) == features) return;
  throw InputError(fmt::format("parallel: {}: an input of shape [{}], expected [..., {}]", layer,
                               c10::Join(", ", input.sizes()), features));
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(Communicator group, std::int64_t in_features,
                                                   std::int64_t out_features,
                                                   const ColumnParallelOptions& options_)
    : options(options_), group_(std::move(group)), in_(in_features), out_(out_features) {
  parallel::require_divisible(group_, column_name, "output features", out_, options.blocks);
  if (options.gather_output && options.blocks > 1) {
    throw InputError(
        fmt::format("parallel: {}: gather_output with {} blocks, expected 1; the parts would lie "
                    "among each other",
                    column_name, options.blocks));
  }
  reset();
}

void ColumnParallelLinearImpl::reset() {
  const auto whole = whole_linear(in_, out_, options.bias);
  const ParameterCut cut{0, options.blocks};
  weight = register_parameter("weight", part_of_parameter(group_, whole->weight, cut));
  bias = register_parameter(
      "bias", options.bias ? part_of_parameter(group_, whole->bias, cut) : torch::Tensor(),
      options.bias);
}

void ColumnParallelLinearImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format(
      "kolo::ColumnParallelLinear(in_features={}, out_features={}, bias={}, "
      "ranks={})",
      in_, out_, options.bias, group_.size());
}

torch::Tensor ColumnParallelLinearImpl::forward(const torch::Tensor& input) {
  require_features(column_name, input, in_);
  const auto whole = options.sequence_dimension
                         ? all_gather_to_group(group_, input, *options.sequence_dimension)
                         : copy_to_group(group_, input);
  const auto output = torch::nn::functional::linear(whole, weight, bias);
  return options.gather_output ? gather_from_group(group_, output) : output;
}

std::vector<CutParameter> ColumnParallelLinearImpl::cut_parameters() const {
  const ParameterCut cut{0, options.blocks};
  std::vector<CutParameter> all = {{"weight", cut}};
  if (options.bias) all.push_back({"bias", cut});
  return all;
}

RowParallelLinearImpl::RowParallelLinearImpl(Communicator group, std::int64_t in_features,
                                             std::int64_t out_features,
                                             const RowParallelOptions& options_)
    : options(options_), group_(std::move(group)), in_(in_features), out_(out_features) {
  parallel::require_divisible(group_, row_name, "input features", in_);
  reset();
}

void RowParallelLinearImpl::reset() {
  const auto whole = whole_linear(in_, out_, options.bias);
  weight = register_parameter("weight", part_of_parameter(group_, whole->weight, {1}));
  bias = register_parameter("bias", options.bias ? whole->bias.detach() : torch::Tensor(),
                            options.bias);
}

void RowParallelLinearImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format(
      "kolo::RowParallelLinear(in_features={}, out_features={}, bias={}, ranks={})", in_, out_,
      options.bias, group_.size());
}

torch::Tensor RowParallelLinearImpl::forward(const torch::Tensor& input) {
  require_features(row_name, input, options.scatter_input ? in_ : in_ / group_.size());
  const auto own = options.scatter_input ? scatter_to_group(group_, input) : input;
  const auto product = torch::nn::functional::linear(own, weight);
  const auto sum = options.sequence_dimension
                       ? reduce_scatter_from_group(group_, product, *options.sequence_dimension)
                       : reduce_from_group(group_, product);
  return options.bias ? sum + bias : sum;
}

std::vector<CutParameter> RowParallelLinearImpl::cut_parameters() const {
  return {{"weight", {1}}};
}

std::vector<std::string> RowParallelLinearImpl::sequence_parameters() const {
  if (options.bias && options.sequence_dimension) return {"bias"};
  return {};
}

}  // namespace kolo
