#include "kolo/parallel/parameter_arena.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/allocator.h"
#include "kolo/base/checked.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

ParameterDescription describe(const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.device().is_cpu()) {
    throw Error(
        fmt::format("parallel: parameter {} is on {}; the arena takes parameters in CPU memory",
                    name, tensor.device().str()));
  }
  ParameterDescription description{name, tensor.sizes().vec(), data_type_of(tensor.scalar_type())};
  if (!tensor.is_contiguous() && tensor.is_non_overlapping_and_dense())
    description.strides = tensor.strides().vec();
  return description;
}

}  // namespace

ParameterArena::ParameterArena(const Communicator& communicator, const torch::nn::Module& module,
                               const BucketLimits& limits, std::span<const std::string> excluded)
    : limits_(limits) {
  collect(module, excluded);
  is_idle_.assign(parameters_.size(), false);
  lay_out(plan_buckets(std::move(plan_.parameters), limits_));
  require_equal_plans(communicator, plan_);
  gradient_memory_ = communicator.allocate(narrow<std::size_t>(plan_.total_bytes));
  flat_gradients_ = flat_views(gradient_memory_);
  for (std::size_t index = 0; index < parameters_.size(); ++index)
    gradient_views_.push_back(view_of(index, flat_gradients_));
  move_parameters(allocate_like_parameters());
}

void ParameterArena::collect(const torch::nn::Module& module,
                             std::span<const std::string> excluded) {
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.requires_grad()) {
      frozen_.push_back({item.key(), tensor});
    } else if (std::find(excluded.begin(), excluded.end(), item.key()) != excluded.end()) {
      excluded_.push_back({item.key(), tensor});
    } else {
      plan_.parameters.push_back(describe(item.key(), tensor));
      parameters_.push_back(tensor);
    }
  }
  for (const std::string& name : excluded) {
    const auto is_name = [&](const NamedTensor& each) { return each.name == name; };
    if (std::any_of(excluded_.begin(), excluded_.end(), is_name)) continue;
    throw Error(fmt::format(
        "parallel: {} is to be left out of the arena, but is no trainable parameter; names are "
        "those of named_parameters()",
        name));
  }
}

void ParameterArena::lay_out(BucketPlan plan) {
  plan_ = std::move(plan);
  places_.resize(parameters_.size());
  for (std::size_t bucket = 0; bucket < buckets(); ++bucket) {
    for (const BucketEntry& entry : plan_.buckets[bucket].entries)
      places_[entry.parameter] = {bucket, entry.offset};
  }
}

void ParameterArena::move_parameters(const std::shared_ptr<std::byte>& memory) {
  move_parameters(flat_views(memory));
}

void ParameterArena::move_parameters(std::vector<torch::Tensor> flat) {
  const torch::NoGradGuard no_gradient;
  std::swap(flat_parameters_, flat);
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    torch::Tensor& parameter = parameters_[index];
    const torch::Tensor view = view_of(index, flat_parameters_);
    view.copy_(parameter);
    parameter.set_data(view);
  }
  // As large as the whole network, and nothing in a training asks for so much again.
  flat.clear();
  release_freed_memory();
}

bool ParameterArena::rebuild(const Communicator& communicator, std::span<const std::size_t> order) {
  auto plan = plan_buckets(plan_.parameters, limits_, order);
  require_equal_plans(communicator, plan);
  if (plan.fingerprint() == plan_.fingerprint()) return false;
  const torch::NoGradGuard no_gradient;
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& view : gradient_views_) gradients.push_back(view.clone());
  lay_out(std::move(plan));
  flat_gradients_ = flat_views(gradient_memory_);
  for (const torch::Tensor& flat : flat_gradients_) flat.zero_();
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const torch::Tensor view = view_of(index, flat_gradients_);
    view.copy_(gradients[index]);
    torch::Tensor& gradient = parameters_[index].mutable_grad();
    if (gradient.is_same(gradient_views_[index])) gradient = view;
    gradient_views_[index] = view;
  }
  move_parameters(allocate_like_parameters());
  ++version_;
  return true;
}

std::vector<torch::Tensor> ParameterArena::flat_views(
    const std::shared_ptr<std::byte>& memory) const {
  std::vector<torch::Tensor> views;
  for (const Bucket& bucket : plan_.buckets) {
    views.push_back(torch::from_blob(
        memory.get() + bucket.offset_bytes, {bucket.count}, [memory](void*) {},
        torch::TensorOptions(scalar_type_of(bucket.type))));
  }
  return views;
}

std::vector<torch::Tensor> ParameterArena::allocate_like_parameters() const {
  // LibTorch's allocator aligns to 64 bytes, and so does every bucket's offset.
  const torch::Tensor memory = torch::zeros({plan_.total_bytes}, torch::kByte);
  std::vector<torch::Tensor> flat;
  for (const Bucket& bucket : plan_.buckets) {
    const auto bytes = bucket.count * static_cast<std::int64_t>(size_of(bucket.type));
    flat.push_back(memory.narrow(0, bucket.offset_bytes, bytes).view(scalar_type_of(bucket.type)));
  }
  return flat;
}

torch::Tensor ParameterArena::view_of(std::size_t parameter,
                                      const std::vector<torch::Tensor>& flat) const {
  const auto& description = plan_.parameters[parameter];
  const Place& place = places_[parameter];
  const auto mine = flat[place.bucket].narrow(0, place.offset, description.count());
  return description.strides.empty() ? mine.view(description.shape)
                                     : mine.as_strided(description.shape, description.strides);
}

void ParameterArena::broadcast_parameters(const Communicator& communicator, int root) const {
  for (const torch::Tensor& bucket : flat_parameters_)
    communicator.broadcast(buffer_of(bucket), root);
  for (const NamedTensor& each : excluded_) broadcast(communicator, each.tensor, root);
}

void broadcast_outside_arena(const Communicator& communicator, const torch::nn::Module& module,
                             int root) {
  for (const torch::Tensor& buffer : module.buffers()) broadcast(communicator, buffer, root);
  for (const torch::Tensor& parameter : module.parameters()) {
    if (!parameter.requires_grad()) broadcast(communicator, parameter, root);
  }
}

}  // namespace kolo
