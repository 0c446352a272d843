#include "support/simulated_device/internals.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/core/TensorImpl.h>

#include "kolo/base/error.h"
#include "support/simulated_device/device.h"

namespace kolo::testing::simulated {
namespace {

bool is_same(const c10::Storage& one, const c10::Storage& other) {
  return one.unsafeGetStorageImpl() == other.unsafeGetStorageImpl();
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// A tensor of a storage, laid out as another one.
at::Tensor tensor_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  auto* const made = tensor.unsafeGetTensorImpl();
  made->set_sizes_and_strides(like.sizes(), like.strides());
  made->set_storage_offset(like.storage_offset());
  return tensor;
}

bool has_layout_of(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.strides() == other.strides() &&
         one.storage_offset() == other.storage_offset();
}

// A list with each element taken through a function; the list itself where that changes none.
template <typename Function>
c10::IValue for_each_tensor(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) return function(value.toTensor());
  if (!value.isList()) return value;
  const auto list = value.toList();
  c10::impl::GenericList made(list.elementType());
  bool has_tensors = false;
  for (const c10::IValue& element : list.vec()) {
    has_tensors = has_tensors || element.isTensor();
    made.push_back(element.isTensor() ? c10::IValue(function(element.toTensor())) : element);
  }
  return has_tensors ? c10::IValue(made) : value;
}

}  // namespace

void resize_storage(const c10::Storage& storage, std::size_t bytes) {
  auto* const changed = storage.unsafeGetStorageImpl();
  c10::DataPtr memory = allocator_of(storage.device()).allocate(bytes);
  copy_bytes(host_view(memory.get()), host_view(storage.data_ptr().get()),
             std::min(bytes, storage.nbytes()));
  changed->set_data_ptr_noswap(std::move(memory));
  changed->set_nbytes(bytes);
}

c10::Storage HostViews::host_storage(const c10::Storage& device) {
  for (const auto& known : storages_) {
    if (is_same(known.device, device)) return known.host;
  }
  void* const data = host_view(device.data_ptr().get());
  const std::size_t bytes = device.nbytes();
  // Resizable: take_over_changes() does the same on the device.
  c10::Storage host(c10::Storage::use_byte_size_t(), static_cast<std::int64_t>(bytes),
                    c10::DataPtr(data, c10::Device(c10::DeviceType::CPU)),
                    c10::GetAllocator(c10::DeviceType::CPU), /*resizable=*/true);
  storages_.push_back({device, host, bytes, data});
  return host;
}

c10::Storage HostViews::device_storage(const c10::Storage& host) {
  for (const auto& known : storages_) {
    if (is_same(known.host, host)) return known.device;
  }
  auto& allocator = allocator_of(device_);
  const std::size_t bytes = host.nbytes();
  c10::Storage made(c10::Storage::use_byte_size_t(), static_cast<std::int64_t>(bytes), &allocator,
                    /*resizable=*/true);
  copy_bytes(host_view(made.data_ptr().get()), host.data_ptr().get(), bytes);
  storages_.push_back({made, host, bytes, host.data_ptr().get()});
  return made;
}

at::Tensor HostViews::view(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kDeviceType) return tensor;
  if (tensors_.empty()) device_ = tensor.device();
  if (tensor.device() != device_) {
    throw Error("simulated device: an operator got tensors of " + device_.str() + " and of " +
                tensor.device().str() + "; copy them to one device first");
  }
  for (const auto& known : tensors_) {
    if (known.device.is_same(tensor)) return known.host;
  }
  at::Tensor host = tensor_over(host_storage(tensor.storage()),
                                c10::DispatchKeySet(c10::DispatchKey::CPU), tensor);
  tensors_.push_back({tensor, host});
  return host;
}

c10::IValue HostViews::view(const c10::IValue& value) {
  return for_each_tensor(value, [this](const at::Tensor& tensor) { return view(tensor); });
}

void HostViews::take_over_changes() {
  for (auto& [device, host, bytes, data] : storages_) {
    if (host.nbytes() == bytes && host.data_ptr().get() == data) continue;
    resize_storage(device, host.nbytes());
    copy_bytes(host_view(device.data_ptr().get()), host.data_ptr().get(), host.nbytes());
  }
  for (auto& [device, host] : tensors_) {
    auto* const changed = device.unsafeGetTensorImpl();
    const c10::Storage storage = device_storage(host.storage());
    if (!is_same(storage, device.storage())) changed->set_storage_keep_dtype(storage);
    if (has_layout_of(device, host)) continue;
    changed->set_sizes_and_strides(host.sizes(), host.strides());
    changed->set_storage_offset(host.storage_offset());
  }
}

at::Tensor HostViews::result(const at::Tensor& host) {
  if (!host.defined()) return host;
  for (const auto& known : tensors_) {
    if (known.host.is_same(host)) return known.device;
  }
  return tensor_over(device_storage(host.storage()), kDeviceKeys, host);
}

c10::IValue HostViews::result(const c10::IValue& value) {
  return for_each_tensor(value, [this](const at::Tensor& tensor) { return result(tensor); });
}

at::Tensor host_tensor(const at::Tensor& device_tensor) {
  HostViews views;
  return views.view(device_tensor);
}

}  // namespace kolo::testing::simulated
