#include "kolo/parallel/parameter_arena.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/machine.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

ParameterDescription describe(const parallel::DistinctTensor& parameter) {
  const torch::Tensor& tensor = parameter.tensor;
  ParameterDescription description{parameter.name, tensor.sizes().vec(),
                                   data_type_of(tensor.scalar_type())};
  description.other_names = parameter.other_names;
  if (!tensor.is_contiguous() && tensor.is_non_overlapping_and_dense())
    description.strides = tensor.strides().vec();
  return description;
}

torch::TensorOptions bytes_on(const torch::Device& device) {
  return torch::TensorOptions(torch::kByte).device(device);
}

// Memory of the host as a tensor, which keeps it alive.
torch::Tensor as_bytes(const std::shared_ptr<std::byte>& memory, std::int64_t bytes) {
  return torch::from_blob(
      memory.get(), {bytes}, [memory](void*) {}, torch::TensorOptions(torch::kByte));
}

// Returns a tensor in the same memory that is no view: zero_grad() of LibTorch's optimizers
// detaches gradients in place, which views refuse.
torch::Tensor unknown_to_autograd(const torch::Tensor& view) {
  return torch::empty({0}, view.options())
      .set_(view.storage(), view.storage_offset(), view.sizes(), view.strides());
}

}  // namespace

ParameterArena::ParameterArena(const Communicator& communicator, const torch::nn::Module& module,
                               const BucketLimits& limits, std::span<const std::string> excluded)
    : module_(module.weak_from_this()), limits_(limits) {
  collect(module, excluded);
  is_idle_.assign(parameters_.size(), false);
  lay_out(plan_buckets(std::move(plan_.parameters), limits_));
  require_equal_plans(communicator, plan_);
  communicator_ = communicator.with_own_order("gradients");
  allocate_gradients();
  flat_gradients_ = flat_buckets(gradient_memory_);
  for (std::size_t index = 0; index < parameters_.size(); ++index)
    gradient_views_.push_back(unknown_to_autograd(view_of(index, flat_gradients_)));
  move_parameters(allocate_like_parameters());
}

void ParameterArena::allocate_gradients() {
  if (!device_.is_cpu()) {
    gradient_memory_ = torch::zeros({plan_.total_bytes}, bytes_on(device_));
    return;
  }
  const auto bytes = narrow<std::size_t>(plan_.total_bytes);
  for (const auto& memory : communicator_->allocate_shared(bytes))
    gradient_memories_.push_back(as_bytes(memory, plan_.total_bytes));
  const auto local_rank = static_cast<std::size_t>(communicator_->topology().local_rank);
  gradient_memory_ = gradient_memories_.empty()
                         ? as_bytes(communicator_->allocate(bytes), plan_.total_bytes)
                         : gradient_memories_[local_rank];
}

std::vector<torch::Tensor> ParameterArena::gradients_on_node(std::size_t bucket) const {
  std::vector<torch::Tensor> gradients;
  for (const auto& memory : gradient_memories_) gradients.push_back(flat_bucket(memory, bucket));
  return gradients;
}

Communicator ParameterArena::gradient_communicator(const Communicator& given) const {
  const bool fits = given.topology().node_of_rank == communicator_->topology().node_of_rank &&
                    given.rank() == communicator_->rank() &&
                    given.is_checked() == communicator_->is_checked();
  return fits ? *communicator_ : given.with_own_order("gradients");
}

void ParameterArena::collect(const torch::nn::Module& module,
                             std::span<const std::string> excluded) {
  parallel::require_memory_of_their_own(module);
  std::set<std::string> unknown(excluded.begin(), excluded.end());
  for (const auto& each : parallel::distinct_tensors(module.named_parameters())) {
    if (each.tensor.requires_grad()) require_no_averager(each.tensor, each.names());
    const bool is_excluded =
        std::erase_if(unknown, [&](const std::string& name) { return each.is_called(name); }) > 0;
    known_.insert(each.tensor.unsafeGetTensorImpl());
    if (!each.tensor.requires_grad()) {
      frozen_.push_back({each.names(), each.tensor});
      if (is_excluded) unknown.insert(each.name);
    } else if (is_excluded) {
      excluded_.push_back({each.names(), each.tensor});
    } else {
      parallel::require_known_values(each.tensor, "parameter " + each.names());
      require_device(each);
      plan_.parameters.push_back(describe(each));
      parameters_.push_back(each.tensor);
    }
  }
  if (unknown.empty()) return;
  throw Error(fmt::format(
      "parallel: {} is to be left out of the arena, but is no trainable parameter; names are "
      "those of named_parameters()",
      *unknown.begin()));
}

// Error unless the parameter is on the first one's device.
void ParameterArena::require_device(const parallel::DistinctTensor& parameter) {
  const auto device = parameter.tensor.device();
  if (parameters_.empty()) device_ = device;
  if (device == device_) return;
  throw Error(fmt::format(
      "parallel: parameter {} is on {}, {} on {}; the arena takes all on one device: "
      "module->to(device) before it is made",
      parameter.names(), device.str(), plan_.parameters.front().names(), device_.str()));
}

void ParameterArena::lay_out(BucketPlan plan) {
  plan_ = std::move(plan);
  locations_.resize(parameters_.size());
  for (std::size_t bucket = 0; bucket < buckets(); ++bucket) {
    for (const BucketEntry& entry : plan_.buckets[bucket].entries)
      locations_[entry.parameter] = {bucket, entry.offset};
  }
}

void ParameterArena::share_parameters(const Communicator& node,
                                      const std::shared_ptr<std::byte>& memory) {
  const bool is_first = node.rank() == 0;
  if (is_first) move_parameters(flat_views(memory));
  node.barrier();
  if (!is_first) move_parameters(flat_views(memory), Values::of_memory);
  shared_parameters_ = true;
}

void ParameterArena::move_parameters(std::vector<torch::Tensor> flat, Values values) {
  const torch::NoGradGuard no_gradient;
  shared_parameters_ = false;
  std::swap(flat_parameters_, flat);
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    torch::Tensor& parameter = parameters_[index];
    const torch::Tensor view = view_of(index, flat_parameters_);
    if (values == Values::of_parameters) view.copy_(parameter);
    parameter.set_data(view);
  }
  // The old memory is as large as the network, and nothing in a training asks for so much again.
  flat.clear();
  release_freed_memory();
}

bool ParameterArena::holds_gradient(std::size_t parameter) const {
  const torch::Tensor& gradient = parameters_[parameter].grad();
  return gradient.defined() && gradient.has_storage() &&
         gradient.data_ptr() == gradient_views_[parameter].data_ptr();
}

bool ParameterArena::rebuild(const Communicator& communicator, std::span<const std::size_t> order) {
  auto plan = plan_buckets(plan_.parameters, limits_, order);
  require_equal_plans(communicator, plan);
  if (plan.fingerprint() == plan_.fingerprint()) return false;
  const torch::NoGradGuard no_gradient;
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& view : gradient_views_) gradients.push_back(view.clone());
  lay_out(std::move(plan));
  flat_gradients_ = flat_buckets(gradient_memory_);
  for (const torch::Tensor& flat : flat_gradients_) flat.zero_();
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const torch::Tensor view = unknown_to_autograd(view_of(index, flat_gradients_));
    view.copy_(gradients[index]);
    if (holds_gradient(index)) parameters_[index].mutable_grad() = view;
    gradient_views_[index] = view;
  }
  move_parameters(allocate_like_parameters());
  ++version_;
  return true;
}

bool ParameterArena::lies_here(std::size_t parameter) const {
  const auto& [bucket, offset] = locations_[parameter];
  const auto size = static_cast<std::int64_t>(size_of(plan_.parameters[parameter].type));
  return parameters_[parameter].data_ptr() ==
         static_cast<const std::byte*>(flat_parameters_[bucket].data_ptr()) + offset * size;
}

// Tells whether other tensors than flat_parameters_ and the parameters here share their memory.
bool ParameterArena::has_other_views() const {
  auto known = flat_parameters_.size();
  for (std::size_t index = 0; index < parameters_.size(); ++index)
    known += lies_here(index) ? 1 : 0;
  return !flat_parameters_.empty() && flat_parameters_.front().storage().use_count() > known;
}

std::string ParameterArena::take_back_parameters() {
  const torch::NoGradGuard no_gradient;
  std::vector<std::string> problems;
  std::vector<std::size_t> elsewhere;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const torch::Tensor& parameter = parameters_[index];
    const auto& description = plan_.parameters[index];
    const bool is_alike = parameter.sizes() == description.shape &&
                          parameter.scalar_type() == scalar_type_of(description.type);
    if (!is_alike) {
      problems.push_back(fmt::format("parameter {} has become {} [{}]", description.describe(),
                                     c10::toString(parameter.scalar_type()),
                                     fmt::join(parameter.sizes(), ", ")));
    } else if (!lies_here(index)) {
      elsewhere.push_back(index);
    }
  }
  if (!elsewhere.empty() && problems.empty() && !shared_parameters_ && has_other_views()) {
    move_parameters(allocate_like_parameters());
    elsewhere.clear();
  }
  for (const std::size_t index : elsewhere) {
    const torch::Tensor view = view_of(index, flat_parameters_);
    view.copy_(parameters_[index]);
    parameters_[index].set_data(view);
  }
  if (const auto module = module_.lock()) {
    for (const auto& each : parallel::distinct_tensors(module->named_parameters())) {
      if (each.tensor.requires_grad() && !known_.contains(each.tensor.unsafeGetTensorImpl()))
        problems.push_back(fmt::format("parameter {} is new in the module", each.names()));
    }
  }
  if (problems.empty()) return "";
  return fmt::format(
      "{}, after the gradients' buffers were made for what the module had; change a network before "
      "its reducer or optimizer is made, or make that anew",
      fmt::join(problems, ", "));
}

std::vector<torch::Tensor> ParameterArena::flat_views(
    const std::shared_ptr<std::byte>& memory) const {
  return flat_buckets(as_bytes(memory, plan_.total_bytes));
}

std::vector<torch::Tensor> ParameterArena::allocate_like_parameters() const {
  // LibTorch's allocators align to 64 bytes, and so does every bucket's offset.
  return flat_buckets(torch::zeros({plan_.total_bytes}, bytes_on(device_)));
}

torch::Tensor ParameterArena::flat_bucket(const torch::Tensor& memory, std::size_t bucket) const {
  const Bucket& planned = plan_.buckets[bucket];
  const auto bytes = planned.count * static_cast<std::int64_t>(size_of(planned.type));
  return memory.narrow(0, planned.offset_bytes, bytes).view(scalar_type_of(planned.type));
}

std::vector<torch::Tensor> ParameterArena::flat_buckets(const torch::Tensor& memory) const {
  std::vector<torch::Tensor> flat;
  for (std::size_t bucket = 0; bucket < buckets(); ++bucket)
    flat.push_back(flat_bucket(memory, bucket));
  return flat;
}

torch::Tensor ParameterArena::view_of(std::size_t parameter,
                                      const std::vector<torch::Tensor>& flat) const {
  const auto& description = plan_.parameters[parameter];
  const Location& location = locations_[parameter];
  const auto mine = flat[location.bucket].narrow(0, location.offset, description.count());
  return description.strides.empty() ? mine.view(description.shape)
                                     : mine.as_strided(description.shape, description.strides);
}

void ParameterArena::broadcast_parameters(const Communicator& communicator, int root) {
  (void)take_back_parameters();  // what can't be mended the next step tells all ranks
  broadcast_flat_parameters(communicator, root);
  for (const NamedTensor& each : excluded_) {
    parallel::require_sendable(each.tensor, "parameter " + each.name);
    broadcast(communicator, each.tensor, root);
  }
}

// The first rank of a node takes part for all where they have one copy.
void ParameterArena::broadcast_flat_parameters(const Communicator& communicator, int root) const {
  const auto broadcast_by = [&](const Communicator& ranks, int from) {
    for (const torch::Tensor& bucket : flat_parameters_) ranks.broadcast(buffer_of(bucket), from);
  };
  if (!shared_parameters_) return broadcast_by(communicator, root);
  const auto& topology = communicator.topology();
  communicator.barrier();  // root's node has the values, whichever of its ranks wrote them
  const auto firsts =
      communicator.split(topology.local_rank == 0 ? 0 : -1, 0, "a rank of each node");
  if (firsts) broadcast_by(*firsts, topology.node_of_rank[static_cast<std::size_t>(root)]);
  communicator.barrier();
}

void broadcast_outside_arena(const Communicator& communicator, const torch::nn::Module& module,
                             int root) {
  const auto send = [&](const parallel::DistinctTensor& each, const std::string& kind) {
    parallel::require_sendable(each.tensor, kind + " " + each.names());
    broadcast(communicator, each.tensor, root);
  };
  for (const auto& each : parallel::distinct_tensors(module.named_buffers())) send(each, "buffer");
  for (const auto& each : parallel::distinct_tensors(module.named_parameters()))
    if (!each.tensor.requires_grad()) send(each, "parameter");
}

}  // namespace kolo
