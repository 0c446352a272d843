#include "kolo/parallel/parameter_arena.h"

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

struct NamedParameters {
  std::vector<ParameterDescription> descriptions;
  std::vector<torch::Tensor> tensors;
};

NamedParameters trainable_parameters(const torch::nn::Module& module) {
  NamedParameters found;
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.requires_grad()) continue;
    if (!tensor.device().is_cpu()) {
      throw Error(
          fmt::format("parallel: parameter {} is on {}; the arena takes parameters in CPU memory",
                      item.key(), tensor.device().str()));
    }
    found.descriptions.push_back(
        {item.key(), tensor.sizes().vec(), data_type_of(tensor.scalar_type())});
    found.tensors.push_back(tensor);
  }
  return found;
}

}  // namespace

ParameterArena::ParameterArena(const Communicator& communicator, const torch::nn::Module& module,
                               const BucketLimits& limits) {
  auto found = trainable_parameters(module);
  parameters_ = std::move(found.tensors);
  plan_ = plan_buckets(std::move(found.descriptions), limits);
  require_equal_plans(communicator, plan_);
  places_.resize(parameters_.size());
  for (std::size_t bucket = 0; bucket < buckets(); ++bucket) {
    for (const BucketEntry& entry : plan_.buckets[bucket].entries)
      places_[entry.parameter] = {bucket, entry.offset};
  }
  flat_parameters_ = allocate_like_parameters();
  flat_gradients_ = flat_views(communicator.allocate(narrow<std::size_t>(plan_.total_bytes)));
  const torch::NoGradGuard no_gradient;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    torch::Tensor& parameter = parameters_[index];
    const torch::Tensor view = view_of(index, flat_parameters_);
    view.copy_(parameter);
    parameter.set_data(view);
    gradient_views_.push_back(view_of(index, flat_gradients_));
  }
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
  return flat[place.bucket].narrow(0, place.offset, description.count()).view(description.shape);
}

void ParameterArena::broadcast_parameters(const Communicator& communicator, int root) const {
  for (const torch::Tensor& bucket : flat_parameters_)
    communicator.broadcast(buffer_of(bucket), root);
}

void broadcast_outside_arena(const Communicator& communicator, const torch::nn::Module& module,
                             int root) {
  for (const torch::Tensor& buffer : module.buffers()) broadcast(communicator, buffer, root);
  for (const torch::Tensor& parameter : module.parameters()) {
    if (!parameter.requires_grad()) broadcast(communicator, parameter, root);
  }
}

}  // namespace kolo
