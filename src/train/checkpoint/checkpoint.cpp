#include "kolo/train/checkpoint/checkpoint.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

template <typename Named>
std::vector<NamedTensor> tensors_of(const Named& items) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : items) tensors.push_back({item.key(), item.value().detach()});
  return tensors;
}

const NamedTensor* find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const std::string& what) {
  throw InputError(
      fmt::format("checkpoint: it is of another model: {}; use the configuration of the run it "
                  "belongs to, or another output folder",
                  what));
}

}  // namespace

std::vector<NamedTensor> module_parameters(const torch::nn::Module& module) {
  return tensors_of(module.named_parameters());
}

std::vector<NamedTensor> module_buffers(const torch::nn::Module& module) {
  return tensors_of(module.named_buffers());
}

std::vector<NamedTensor> module_tensors(const torch::nn::Module& module) {
  auto tensors = module_parameters(module);
  for (auto& buffer : module_buffers(module)) tensors.push_back(std::move(buffer));
  return tensors;
}

void require_same_tensors(const std::vector<NamedTensor>& saved,
                          const std::vector<NamedTensor>& wanted) {
  for (const NamedTensor& item : wanted) {
    const NamedTensor* const other = find(saved, item.name);
    if (other == nullptr) refuse(fmt::format("it has no {}", item.name));
    if (other->tensor.sizes() != item.tensor.sizes())
      refuse(fmt::format("its {} is [{}], the configuration's is [{}]", item.name,
                         fmt::join(other->tensor.sizes(), ", "),
                         fmt::join(item.tensor.sizes(), ", ")));
  }
  for (const NamedTensor& item : saved) {
    if (find(wanted, item.name) == nullptr)
      refuse(fmt::format("it has {}, which the configuration's has not", item.name));
  }
}

const torch::Tensor& saved_tensor(const std::vector<NamedTensor>& saved, const std::string& name,
                                  torch::IntArrayRef sizes) {
  const NamedTensor* const source = find(saved, name);
  if (source == nullptr || source->tensor.sizes() != sizes)
    throw Error(
        fmt::format("checkpoint: it has no {} of shape [{}]", name, fmt::join(sizes.vec(), ", ")));
  return source->tensor;
}

void copy_tensors(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& into) {
  const torch::NoGradGuard no_gradient;
  for (const NamedTensor& item : into)
    torch::Tensor(item.tensor).copy_(saved_tensor(saved, item.name, item.tensor.sizes()));
}

}  // namespace kolo
