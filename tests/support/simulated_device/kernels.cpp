#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Optional.h>
#include <torch/library.h>

#include "kolo/base/error.h"
#include "support/simulated_device/device.h"
#include "support/simulated_device/internals.h"
#include "support/simulated_device/memory.h"

// Operators of the simulated accelerator: a few of its own, all others by the CPU's kernel.
namespace kolo::testing::simulated {
namespace {

using c10::optional;

c10::Device on_current_device_unless(optional<c10::Device> device) {
  return device.value_or(c10::Device(kDeviceType, -1));
}

at::Tensor empty(at::IntArrayRef sizes, optional<at::ScalarType> type, optional<at::Layout>,
                 optional<c10::Device> device, optional<bool>, optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &allocator_of(on_current_device_unless(device)),
                                   kDeviceKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         optional<at::ScalarType> type, optional<at::Layout>,
                         optional<c10::Device> device, optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides,
                                           &allocator_of(on_current_device_unless(device)),
                                           kDeviceKeys, c10::dtype_or_default(type));
}

std::atomic<std::int64_t> waits = 0;

c10::Stream current_stream(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(kDeviceType).getStream(device);
}

// Makes a copy of bytes from the host in a stream of its own a late one. It keeps the device's
// memory, as an allocator that knows the stream does, but not the host's.
bool is_copied_late(const at::Tensor& from, const at::Tensor& to) {
  if (!from.is_cpu() || from.scalar_type() != to.scalar_type() || from.sizes() != to.sizes() ||
      !from.is_contiguous() || !to.is_contiguous())
    return false;
  const auto stream = current_stream(to.device());
  if (stream.id() == 0) return false;
  add_late_copy(stream,
                [storage = to.storage(), there = host_view(to.data_ptr()), here = from.data_ptr(),
                 bytes = from.nbytes()] { std::memcpy(there, here, bytes); });
  return true;
}

// Copies between host and device, and between devices.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (!non_blocking && (from.is_cpu() || to.is_cpu())) ++waits;
  if (non_blocking && to.device().type() == kDeviceType && is_copied_late(from, to)) return to;
  finish_copies(current_stream(to.is_cpu() ? from.device() : to.device()));
  const at::AutoDispatchBelowADInplaceOrView below;
  HostViews source, destination;
  destination.view(to).copy_(source.view(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  const at::AutoDispatchBelowADInplaceOrView below;
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Tensor& set_to_range_of(at::Tensor& tensor, c10::Storage storage, std::int64_t offset,
                            at::IntArrayRef sizes, at::IntArrayRef strides) {
  const auto type_bytes = tensor.dtype().itemsize();
  auto* const changed = tensor.unsafeGetTensorImpl();
  const bool contiguous = strides.empty();
  const std::size_t needed =
      contiguous ? at::detail::computeStorageNbytesContiguous(sizes, type_bytes,
                                                              static_cast<std::size_t>(offset))
                 : at::detail::computeStorageNbytes(sizes, strides, type_bytes,
                                                    static_cast<std::size_t>(offset));
  if (needed > storage.nbytes()) resize_storage(storage, needed);
  changed->set_storage_keep_dtype(std::move(storage));
  changed->set_storage_offset(offset);
  if (contiguous) {
    changed->set_sizes_contiguous(sizes);
  } else {
    changed->set_sizes_and_strides(sizes, strides);
  }
  return tensor;
}

at::Tensor& set_to_storage(at::Tensor& tensor, c10::Storage storage) {
  const auto elements = static_cast<std::int64_t>(storage.nbytes() / tensor.dtype().itemsize());
  return set_to_range_of(tensor, std::move(storage), 0, elements, {});
}

// Does nothing: work is done at once, so memory is never freed while a stream uses it.
void record_stream(at::Tensor& /*tensor*/, c10::Stream /*stream*/) {}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  const at::AutoDispatchBelowADInplaceOrView below;
  HostViews views;
  const at::Tensor input_view = views.view(input), weight_view = views.view(weight);
  optional<at::Tensor> bias_view;
  if (bias && bias->defined()) bias_view = views.view(*bias);
  return views.result(at::convolution(input_view, weight_view, bias_view, stride, padding, dilation,
                                      transposed, output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> wanted) {
  const at::AutoDispatchBelowADInplaceOrView below;
  HostViews views;
  const std::array bias_sizes{gradient.size(1)};
  const auto [of_input, of_weight, of_bias] = at::convolution_backward(
      views.view(gradient), views.view(input), views.view(weight), at::IntArrayRef(bias_sizes),
      stride, padding, dilation, transposed, output_padding, groups, wanted);
  return {views.result(of_input), views.result(of_weight), views.result(of_bias)};
}

// Host tensors beside the device's are an error on a GPU, unless they are scalars that are only
// read. Lists are left alone: in them are the indices of index() and index_put_().
void refuse_host_tensors(const c10::FunctionSchema& schema, const c10::Argument& argument,
                         const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return;
  const at::Tensor& tensor = value.toTensor();
  const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  if (!tensor.is_cpu() || (tensor.dim() == 0 && !written)) return;
  throw Error("simulated device: " + schema.name() + " got a tensor of the host as " +
              argument.name() + " beside tensors of the device; copy it to the device first");
}

constexpr std::array<std::string_view, 5> waiting{"aten::_local_scalar_dense", "aten::nonzero",
                                                  "aten::masked_select", "aten::equal",
                                                  "aten::_unique2"};

// Argument for the CPU's kernel.
c10::IValue host_argument(HostViews& views, const c10::IValue& value) {
  if (value.isGenerator()) return host_generator(value.toGenerator());
  if (!value.isDevice()) return views.view(value);
  views.set_device(value.toDevice());
  return c10::Device(c10::DeviceType::CPU);
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  if (std::find(waiting.begin(), waiting.end(), schema.name()) != waiting.end()) ++waits;
  const auto& arguments = schema.arguments();
  const std::size_t first = stack->size() - arguments.size();
  HostViews views;
  const std::vector<c10::IValue> given(stack->begin() + static_cast<std::ptrdiff_t>(first),
                                       stack->end());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    (*stack)[first + i] = host_argument(views, given[i]);
  }
  if (views.has_device_tensors()) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      refuse_host_tensors(schema, arguments[i], given[i]);
    }
    finish_copies(current_stream(views.device()));
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  views.take_over_changes();
  for (std::size_t i = first; i < stack->size(); ++i) (*stack)[i] = views.result((*stack)[i]);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("set_.source_Storage", &set_to_storage);
  library.impl("set_.source_Storage_storage_offset", &set_to_range_of);
  library.impl("record_stream", &record_stream);
  // LibTorch has something of its own for devices without a kernel: for losses a detour that warns
  // of an output of wrong size, for norms a composition with other roundings.
  for (const char* name : {"mse_loss", "native_group_norm", "native_layer_norm"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
  library.impl("convolution_overrideable", &convolution);
  library.impl("convolution_backward_overrideable", &convolution_backward);
}

}  // namespace

std::int64_t host_waits() {
  return waits;
}

}  // namespace kolo::testing::simulated
