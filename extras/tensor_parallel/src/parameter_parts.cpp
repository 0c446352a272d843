#include "kolo/tensor_parallel/parameter_parts.h"

#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

// Calls visit(layer, prefix of its parameters' names) for a module's layers that have parts.
void for_each_layer(const torch::nn::Module& module,
                    const std::function<void(const PartsOfParameters&, std::string)>& visit) {
  const auto visit_one = [&](const torch::nn::Module& one, const std::string& name) {
    const auto* layer = dynamic_cast<const PartsOfParameters*>(&one);
    if (layer) visit(*layer, name.empty() ? name : name + ".");
  };
  visit_one(module, "");
  for (const auto& child : module.named_modules("", /*include_self=*/false))
    visit_one(*child.value(), child.key());
}

// Shape of a tensor by its cut dimension: values before it, blocks, ranks, a rank's part of a
// block, values after it.
std::vector<std::int64_t> whole_view(const torch::Tensor& whole, const ParameterCut& cut,
                                     std::int64_t ranks) {
  const auto sizes = whole.sizes();
  const auto dimension = static_cast<std::size_t>(cut.dimension);
  return {c10::multiply_integers(sizes.slice(0, dimension)), cut.blocks, ranks,
          sizes[dimension] / (cut.blocks * ranks),
          c10::multiply_integers(sizes.slice(dimension + 1))};
}

std::vector<std::int64_t> shape_with(const torch::Tensor& tensor, const ParameterCut& cut,
                                     std::int64_t length) {
  auto shape = tensor.sizes().vec();
  shape[static_cast<std::size_t>(cut.dimension)] = length;
  return shape;
}

std::map<std::string, ParameterCut> cuts_by_name(const torch::nn::Module& module) {
  std::map<std::string, ParameterCut> cuts;
  for (auto& [name, cut] : cut_parameters(module)) cuts.emplace(name, cut);
  return cuts;
}

}  // namespace

std::vector<CutParameter> cut_parameters(const torch::nn::Module& module) {
  std::vector<CutParameter> all;
  for_each_layer(module, [&](const PartsOfParameters& layer, const std::string& prefix) {
    for (const auto& [name, cut] : layer.cut_parameters()) all.push_back({prefix + name, cut});
  });
  return all;
}

std::vector<std::string> sequence_parameters(const torch::nn::Module& module) {
  std::vector<std::string> all;
  for_each_layer(module, [&](const PartsOfParameters& layer, const std::string& prefix) {
    for (const auto& name : layer.sequence_parameters()) all.push_back(prefix + name);
  });
  return all;
}

torch::Tensor part_of_parameter(const Communicator& group, const torch::Tensor& whole,
                                const ParameterCut& cut) {
  const torch::NoGradGuard no_gradient;
  const auto length = whole.size(cut.dimension);
  const auto pieces = checked_multiply<std::int64_t>(cut.blocks, group.size());
  if (length % pieces != 0) {
    throw InputError(
        fmt::format("parallel: {} rows of a parameter in {} blocks are to be cut among {} ranks; "
                    "expected a multiple of {}",
                    length, cut.blocks, group.size(), pieces));
  }
  return whole.reshape(whole_view(whole, cut, group.size()))
      .select(2, group.rank())
      .reshape(shape_with(whole, cut, length / group.size()))
      .clone(torch::MemoryFormat::Contiguous);
}

torch::Tensor whole_parameter(const Communicator& group, const torch::Tensor& part,
                              const ParameterCut& cut) {
  const torch::NoGradGuard no_gradient;
  const auto mine = part.contiguous();
  const auto shape = shape_with(part, cut, part.size(cut.dimension) * group.size());
  const auto whole = torch::empty(shape, part.options());
  const auto view = whole_view(whole, cut, group.size());
  // The ranks' parts come first, then change places with the blocks.
  const auto all = torch::empty({view[2], view[0], view[1], view[3], view[4]}, part.options());
  group.all_gather(buffer_of(mine), buffer_of(all), {.name = "whole parameter"});
  return all.permute({1, 2, 0, 3, 4}).reshape(shape).contiguous();
}

torch::OrderedDict<std::string, torch::Tensor> whole_parameters(const Communicator& group,
                                                                const torch::nn::Module& module) {
  const auto cuts = cuts_by_name(module);
  torch::OrderedDict<std::string, torch::Tensor> whole;
  for (const auto& item : module.named_parameters()) {
    const auto cut = cuts.find(item.key());
    const auto values = item.value().detach();
    whole.insert(item.key(),
                 cut == cuts.end() ? values.clone() : whole_parameter(group, values, cut->second));
  }
  return whole;
}

void set_whole_parameters(const Communicator& group, torch::nn::Module& module,
                          const torch::OrderedDict<std::string, torch::Tensor>& whole) {
  const torch::NoGradGuard no_gradient;
  const auto cuts = cuts_by_name(module);
  std::vector<std::pair<torch::Tensor, torch::Tensor>> copies;
  for (const auto& item : module.named_parameters()) {
    const auto cut = cuts.find(item.key());
    const auto& own = item.value();
    const auto expected =
        cut == cuts.end()
            ? own.sizes().vec()
            : shape_with(own, cut->second, own.size(cut->second.dimension) * group.size());
    const auto* values = whole.find(item.key());
    if (!values || values->sizes() != expected) {
      throw InputError(
          fmt::format("parallel: whole parameters: {} {}, expected one of shape [{}]", item.key(),
                      values ? fmt::format("has the shape [{}]", c10::Join(", ", values->sizes()))
                             : std::string("is missing"),
                      c10::Join(", ", expected)));
    }
    copies.emplace_back(
        own, cut == cuts.end() ? *values : part_of_parameter(group, *values, cut->second));
  }
  for (auto& [own, values] : copies) own.copy_(values);
}

}  // namespace kolo
