#include "parallel/tensors/tensors.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include "kolo/base/error.h"

namespace kolo::parallel {

namespace {

// The bytes from a tensor's first element to its last.
struct Extent {
  const DistinctTensor* of;
  const char* begin;
  const char* end;
};

Extent extent_of(const DistinctTensor& each) {
  const torch::Tensor& tensor = each.tensor;
  std::int64_t last = 0;
  for (std::int64_t dimension = 0; dimension < tensor.dim(); ++dimension)
    last += (tensor.size(dimension) - 1) * tensor.stride(dimension);
  const auto* const begin = static_cast<const char*>(tensor.data_ptr());
  return {&each, begin, begin + (last + 1) * static_cast<std::int64_t>(tensor.element_size())};
}

// Extents that overlap may be columns of one matrix, which have no element in common.
bool have_common_elements(const torch::Tensor& first, const torch::Tensor& second) {
  if (first.scalar_type() != second.scalar_type() || !first.is_alias_of(second)) return true;
  const torch::NoGradGuard no_gradient;
  const auto elements = static_cast<std::int64_t>(first.storage().nbytes() / first.element_size());
  const torch::Tensor numbers = torch::arange(elements);
  const auto numbers_of = [&](const torch::Tensor& tensor) {
    return numbers.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset()).flatten();
  };
  const torch::Tensor is_taken = torch::zeros({elements}, torch::kBool);
  is_taken.index_fill_(0, numbers_of(first), true);
  return is_taken.index_select(0, numbers_of(second)).any().item<bool>();
}

}  // namespace

bool DistinctTensor::is_called(const std::string& wanted) const {
  return name == wanted ||
         std::find(other_names.begin(), other_names.end(), wanted) != other_names.end();
}

std::string DistinctTensor::names() const {
  return other_names.empty() ? name
                             : fmt::format("{} (also {})", name, fmt::join(other_names, ", "));
}

std::vector<DistinctTensor> distinct_tensors(
    const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  std::vector<DistinctTensor> distinct;
  std::map<const torch::TensorImpl*, std::size_t> places;
  for (const auto& item : tensors) {
    if (!item.value().defined()) continue;
    const auto [place, is_new] =
        places.emplace(item.value().unsafeGetTensorImpl(), distinct.size());
    if (is_new)
      distinct.push_back({item.value(), item.key()});
    else
      distinct[place->second].other_names.push_back(item.key());
  }
  return distinct;
}

void require_memory_of_their_own(const torch::nn::Module& module) {
  auto all = module.named_parameters();
  all.update(module.named_buffers());
  const auto tensors = distinct_tensors(all);
  std::vector<Extent> extents;
  for (const DistinctTensor& each : tensors) {
    const bool has_memory = each.tensor.layout() == torch::kStrided && !each.tensor.is_meta() &&
                            each.tensor.numel() > 0;
    if (has_memory) extents.push_back(extent_of(each));
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < extents.size(); ++i) {
    for (std::size_t j = i + 1; j < extents.size() && extents[j].begin < extents[i].end; ++j) {
      const torch::Tensor& first = extents[i].of->tensor;
      const torch::Tensor& second = extents[j].of->tensor;
      if (!first.requires_grad() && !second.requires_grad()) continue;  // both stay where they are
      if (!have_common_elements(first, second)) continue;
      throw Error(fmt::format(
          "parallel: {} and {} are two tensors in the same memory; register one tensor (or module) "
          "under both names, or clone() one of them",
          extents[i].of->names(), extents[j].of->names()));
    }
  }
}

}  // namespace kolo::parallel
