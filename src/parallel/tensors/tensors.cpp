#include "parallel/tensors/tensors.h"

#include <algorithm>
#include <map>
#include <utility>

#include <ATen/MemoryOverlap.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

constexpr std::pair<DataType, torch::ScalarType> types_of_both[] = {
    {DataType::float64, torch::kDouble}, {DataType::float32, torch::kFloat},
    {DataType::float16, torch::kHalf},   {DataType::bfloat16, torch::kBFloat16},
    {DataType::int64, torch::kLong},     {DataType::int32, torch::kInt},
    {DataType::int16, torch::kShort},    {DataType::int8, torch::kChar},
    {DataType::uint8, torch::kByte},     {DataType::boolean, torch::kBool}};

}  // namespace

DataType data_type_of(torch::ScalarType type) {
  for (const auto& [own, of_torch] : types_of_both)
    if (of_torch == type) return own;
  throw Error(
      fmt::format("parallel: collectives take no tensors of {}; convert to one of float64, "
                  "float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool",
                  torch::toString(type)));
}

torch::ScalarType scalar_type_of(DataType type) {
  for (const auto& [own, of_torch] : types_of_both)
    if (own == type) return of_torch;
  return torch::kFloat;
}

Buffer buffer_of(const torch::Tensor& contiguous) {
  if (!contiguous.is_contiguous()) {
    throw Error(fmt::format(
        "parallel: a collective's buffer must be a contiguous tensor; got one of {} on {} that is "
        "not; make it so with .contiguous()",
        torch::toString(contiguous.scalar_type()), contiguous.device().str()));
  }
  const auto type = data_type_of(contiguous.scalar_type());
  if (contiguous.device().is_cpu()) return {contiguous.data_ptr(), contiguous.numel(), type};
  return Buffer::on_device(contiguous.data_ptr(), contiguous.numel(), type,
                           parallel::current_stream(contiguous.device()));
}

parallel::TaskStream parallel::TaskStream::of(const torch::Tensor& tensor) {
  TaskStream result;
  const auto device = tensor.device();
  if (!device.is_cpu())
    result.stream_ = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return result;
}

std::vector<FusedTensors> fuse_by_type(torch::TensorList tensors) {
  std::vector<FusedTensors> all;
  std::vector<torch::ScalarType> types;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const auto type = tensors[index].scalar_type();
    (void)data_type_of(type);  // refuses what can't travel
    const auto group = std::find(types.begin(), types.end(), type) - types.begin();
    if (static_cast<std::size_t>(group) == types.size()) {
      types.push_back(type);
      all.emplace_back();
    }
    all[static_cast<std::size_t>(group)].indices.push_back(index);
  }
  for (FusedTensors& fused : all) {
    std::vector<torch::Tensor> pieces;
    for (const std::size_t index : fused.indices) pieces.push_back(tensors[index].reshape({-1}));
    fused.flat = pieces.size() == 1 ? pieces.front().contiguous() : torch::cat(pieces);
  }
  return all;
}

void unfuse(const FusedTensors& fused, torch::TensorList tensors) {
  std::int64_t begin = 0;
  for (const std::size_t index : fused.indices) {
    const torch::Tensor& tensor = tensors[index];
    const torch::Tensor piece = fused.flat.narrow(0, begin, tensor.numel());
    if (piece.data_ptr() != tensor.data_ptr()) tensor.copy_(piece.view(tensor.sizes()));
    begin += tensor.numel();
  }
}

torch::Tensor as_rows(const torch::Tensor& tensor) {
  return (tensor.dim() == 0 ? tensor.reshape({1}) : tensor).contiguous();
}

}  // namespace kolo

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

[[noreturn]] void refuse(const std::string& name, const std::string& problem,
                         const std::string& advice) {
  throw Error(
      fmt::format("parallel: {} {}, which collectives don't take; {}, or, if it is a buffer or "
                  "frozen and alike "
                  "on all ranks, leave it out with the option broadcast_parameters = false",
                  name, problem, advice));
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
  std::map<const torch::TensorImpl*, std::size_t> numbers;
  for (const auto& item : tensors) {
    if (!item.value().defined()) continue;
    const auto [number, is_new] =
        numbers.emplace(item.value().unsafeGetTensorImpl(), distinct.size());
    if (is_new)
      distinct.push_back({item.value(), item.key()});
    else
      distinct[number->second].other_names.push_back(item.key());
  }
  return distinct;
}

void require_known_values(const torch::Tensor& tensor, const std::string& name) {
  const auto type = tensor.scalar_type();
  if (tensor.layout() != torch::kStrided)
    refuse(name, "is not dense", "make it so with .to_dense()");
  if (torch::isComplexType(type))
    refuse(name, fmt::format("is of {}", torch::toString(type)),
           "register its real numbers, torch::view_as_real(tensor)");
  const auto is_own = [&](const auto& types) { return types.second == type; };
  if (std::ranges::none_of(types_of_both, is_own))
    refuse(name, fmt::format("is of {}", torch::toString(type)), "convert it to another type");
}

void require_sendable(const torch::Tensor& tensor, const std::string& name) {
  require_known_values(tensor, name);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    refuse(name, "has elements in one place of memory, as expand() makes them",
           "give each its own with .clone()");
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
