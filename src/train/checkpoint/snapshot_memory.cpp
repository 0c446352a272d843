#include "kolo/train/checkpoint/snapshot_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/mman.h>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"

namespace kolo {

namespace {

constexpr std::uint64_t alignment = 64;
// 1/8 of the free memory is left for what training still allocates.
constexpr std::uint64_t free_divisor = 8;

std::uint64_t padded(std::uint64_t bytes) {
  return checked_multiply(divide_up(bytes, alignment), alignment);
}

bool is_available(std::uint64_t bytes, std::uint64_t besides) {
  const auto left = available_memory();
  if (!left) return true;  // whoever gives it will tell
  const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(*left, 0));
  return checked_add(bytes, besides) <= most - most / free_divisor;
}

// False: the system does not give the pages.
bool take_pages(void* memory, std::size_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno == ENOMEM || errno == EFAULT) return false;
#endif
  std::memset(memory, 0, bytes);  // an older system
  return true;
}

// Undefined: the system does not give it.
torch::Tensor map_region(std::uint64_t bytes) {
  const auto size = narrow<std::size_t>(std::max(bytes, alignment));
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  (void)::madvise(memory, size, MADV_HUGEPAGE);  // a wish
  const auto unmap = [size](void* address) { (void)::munmap(address, size); };
  auto region = torch::from_blob(memory, {narrow<std::int64_t>(size)}, unmap, torch::kByte);
  return take_pages(memory, size) ? region : torch::Tensor();
}

torch::Tensor pinned(const torch::Tensor& region, const SnapshotMemory::Pin& pin) {
  const auto bytes = region.numel();
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(region.data_ptr()),
                                          [region](std::byte*) {});
  try {
    auto held = pin(memory, narrow<std::size_t>(bytes));
    auto* const data = held.get();
    return torch::from_blob(
        data, {bytes}, [held = std::move(held)](void*) {}, torch::kByte);
  } catch (const Error&) {
    return region;  // copies to it take longer
  }
}

torch::Tensor as_dense(const torch::Tensor& tensor) {
  const auto plain = tensor.detach().resolve_neg();
  return plain.is_non_overlapping_and_dense() ? plain : plain.contiguous();
}

}  // namespace

std::uint64_t SnapshotMemory::bytes_for(std::span<const NamedTensor> tensors) {
  std::uint64_t bytes = 0;
  for (const auto& item : tensors) bytes = checked_add(bytes, padded(item.tensor.nbytes()));
  return bytes;
}

std::optional<SnapshotMemory> SnapshotMemory::get(std::uint64_t bytes, std::uint64_t besides,
                                                  const Pin& pin) {
  if (!is_available(bytes, besides)) return std::nullopt;
  auto region = map_region(bytes);
  if (!region.defined()) return std::nullopt;
  return SnapshotMemory(pin ? pinned(region, pin) : std::move(region));
}

std::uint64_t SnapshotMemory::bytes() const {
  return region_.nbytes();
}

torch::Tensor SnapshotMemory::room_for(const torch::Tensor& dense) {
  const auto end = checked_add(used_, padded(dense.nbytes()));
  if (end > bytes())
    throw Error(
        fmt::format("checkpoint: a snapshot of more than the {} bytes that it has", bytes()));
  auto* const memory = region_.data_ptr<std::uint8_t>() + used_;
  used_ = end;
  const auto keep = [region = region_](void*) {};
  return torch::from_blob(memory, dense.sizes(), dense.strides(), keep,
                          torch::TensorOptions(dense.scalar_type()));
}

torch::Tensor SnapshotMemory::copy(const torch::Tensor& tensor) {
  const torch::NoGradGuard no_gradient;
  const auto dense = as_dense(tensor);
  return room_for(dense).copy_(dense, /*non_blocking=*/dense.is_cuda());
}

void SnapshotMemory::wait(const torch::Device& device) {
  if (!device.is_cuda()) return;
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

}  // namespace kolo
