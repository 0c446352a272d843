#include "online/inference.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/parallel/checks.h"

namespace kolo::online {

Weights Weights::of(const torch::nn::Module& module) {
  Weights weights;
  weights.parameters = module.parameters();
  weights.buffers = module.buffers();
  return weights;
}

Weights Weights::copy() const {
  Weights copied = *this;
  for (auto* const tensors : {&copied.parameters, &copied.buffers}) {
    for (auto& tensor : *tensors) tensor = tensor.detach().clone();
  }
  return copied;
}

std::vector<torch::Tensor> Weights::tensors() const {
  auto all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

std::uint64_t Weights::checksum() const {
  std::uint64_t result = 1469598103934665603U;
  for (const auto& tensor : tensors()) result = (result ^ checksum_of(tensor)) * 1099511628211U;
  return result;
}

Inference::Inference(MakeNetwork make, const OnlineTrainingConfig& training)
    : make_(std::move(make)), training_(training) {}

void Inference::use(std::shared_ptr<const Weights> weights) {
  const std::lock_guard lock(mutex_);
  weights_ = std::move(weights);
}

std::shared_ptr<const Weights> Inference::weights() const {
  const std::lock_guard lock(mutex_);
  return weights_;
}

std::unique_lock<std::shared_mutex> Inference::changes() const {
  return std::unique_lock(changes_);
}

std::shared_ptr<Inference::Replica> Inference::lease() const {
  std::shared_ptr<Replica> replica;
  std::shared_ptr<const Weights> newest;
  {
    const std::lock_guard lock(mutex_);
    newest = weights_;
    if (!free_.empty()) {
      replica = std::move(free_.back());
      free_.pop_back();
    }
  }
  // Making a network draws from LibTorch's generator, so one thread at a time does it.
  if (!replica) {
    static std::mutex making;
    const std::lock_guard lock(making);
    replica = std::make_shared<Replica>(Replica{NetworkReplica(make_), nullptr});
  }
  auto* const leased = replica.get();
  std::shared_ptr<Replica> lease(leased, [this, replica = std::move(replica)](Replica*) {
    const std::lock_guard lock(mutex_);
    free_.push_back(replica);
  });
  if (leased->weights != newest) {
    leased->network.use(newest->parameters, newest->buffers);
    leased->weights = std::move(newest);
  }
  return lease;
}

std::vector<torch::Tensor> Inference::outputs_for(const std::vector<torch::Tensor>& inputs,
                                                  const TensorShapes& shapes,
                                                  NetworkReplica& network, const Call& call) {
  const auto text = [&](std::string_view words) {
    return call.text(fmt::format("the network failed on inputs {}: {}", describe(shapes), words));
  };
  try {
    return network.infer(inputs);
  } catch (const InputError& error) {
    throw InputError(text(error.what()));
  } catch (const std::exception& error) {
    throw Error(text(first_line_of(error.what())));
  }
}

namespace {

// Other overlaps than those of a stride of 0, as that of a broadcast view, are not looked for.
void require_own_elements(std::span<const Array> outputs, const Call& call) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t axis = 0; axis < outputs[i].lengths().size(); ++axis) {
      if (outputs[i].stride[axis] != 0 || outputs[i].shape[axis] == 1) continue;
      refuse(call, fmt::format("outputs[{}]", i),
             fmt::format("its stride {} is 0 over {} elements, which are one in memory; expected "
                         "elements of their own",
                         axis, outputs[i].shape[axis]));
    }
  }
}

void require_fitting(const SampleArrays& outputs, const std::vector<torch::Tensor>& tensors,
                     const Call& call) {
  if (outputs.shapes().size() != tensors.size()) {
    refuse(call, "outputs",
           fmt::format("they are {} tensors, but the network gives {}", outputs.shapes().size(),
                       tensors.size()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto expected = outputs.samples() * outputs.shapes()[i].count();
    if (tensors[i].numel() == expected) continue;
    refuse(call, fmt::format("outputs[{}]", i),
           fmt::format("it has room for {} values ({} samples of {}), but the network gives [{}]",
                       expected, outputs.samples(), describe({outputs.shapes()[i]}),
                       fmt::join(tensors[i].sizes(), ", ")));
  }
}

}  // namespace

void Inference::infer(std::span<const Array> inputs, std::span<const Array> outputs,
                      const Call& call) const {
  const SampleArrays from(inputs, training_.samples, training_.column_axis, call, "inputs");
  const SampleArrays to(outputs, training_.samples, training_.column_axis, call, "outputs");
  if (inputs.empty()) refuse(call, "inputs", "there are none; expected an array or more");
  if (outputs.empty()) refuse(call, "outputs", "there are none; expected an array or more");
  require_own_elements(outputs, call);
  const std::shared_lock lock(changes_);
  const auto replica = lease();
  const auto& normalization = *replica->weights->normalization;
  const auto tensors = outputs_for(inputs_of(from, has_batch(), normalization), from.shapes(),
                                   replica->network, call);
  require_fitting(to, tensors, call);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_integer = !tensors[i].is_floating_point();
    const auto values = tensors[i].to(is_integer ? torch::kLong : torch::kFloat).contiguous();
    if (is_integer)
      to.write(i, values.data_ptr<std::int64_t>());
    else
      to.write(i, values.data_ptr<float>(), scales_in(normalization.targets, i));
  }
}

void Inference::warm_up(std::span<const Array> inputs, const Call& call) const {
  const SampleArrays from(inputs, training_.samples, training_.column_axis, call, "inputs");
  if (inputs.empty()) refuse(call, "inputs", "there are none; expected an array or more");
  const std::shared_lock lock(changes_);
  const auto replica = lease();
  const auto tensors = inputs_of(from, has_batch(), *replica->weights->normalization);
  // TorchScript compiles for given shapes during its first calls.
  for (int i = 0; i < 3; ++i) (void)outputs_for(tensors, from.shapes(), replica->network, call);
}

void Inference::require_samples(const SampleShapes& shapes, const TensorsLoss& loss,
                                const Call& call) const {
  const auto zeros = [&](const TensorShapes& group) {
    std::vector<torch::Tensor> tensors;
    for (const auto& shape : group) tensors.push_back(empty_for(shape, 1, has_batch()).zero_());
    return tensors;
  };
  std::vector<torch::Tensor> outputs;
  try {
    const std::shared_lock lock(changes_);
    outputs = outputs_for(zeros(shapes.inputs), shapes.inputs, lease()->network, call);
  } catch (const Error& error) {
    throw InputError(error.what());  // LibTorch's words for a wrong shape are of no one class
  }
  if (!loss) return;
  try {
    const torch::NoGradGuard no_gradient;
    for (auto& output : outputs) output = torch::zeros(output.sizes(), output.scalar_type());
    (void)loss(outputs, zeros(shapes.targets), zeros(shapes.extras));
  } catch (const std::exception& error) {
    refuse(call, "targets", first_line_of(error.what()));
  }
}

}  // namespace kolo::online
