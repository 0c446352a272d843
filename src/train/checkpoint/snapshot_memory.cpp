#include "kolo/train/checkpoint/snapshot_memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/mman.h>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

constexpr std::uint64_t alignment = 64;
constexpr std::int64_t bytes_at_once = 1 << 20;  // that a thread copies
// One part in so many of the free memory is left for what training has yet to take.
constexpr std::uint64_t free_divisor = 8;

std::uint64_t padded(std::uint64_t bytes) {
  return checked_multiply(checked_add(bytes, alignment - 1) / alignment, alignment);
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

// Bytes that stay in the first-level cache between the pass that looks and the one that stores.
constexpr std::size_t cache_block_bytes = 8192;

template <typename Word>
KOLO_INLINE inline Word largest_without_sign(const Word* words, std::size_t count) {
  constexpr Word without_sign = std::numeric_limits<Word>::max() >> 1;
  Word largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, static_cast<Word>(words[i] & without_sign));
  return largest;
}

KOLO_VECTORIZE std::uint16_t largest_word(const std::uint16_t* words, std::size_t count) {
  return largest_without_sign(words, count);
}
KOLO_VECTORIZE std::uint32_t largest_word(const std::uint32_t* words, std::size_t count) {
  return largest_without_sign(words, count);
}
KOLO_VECTORIZE std::uint64_t largest_word(const std::uint64_t* words, std::size_t count) {
  return largest_without_sign(words, count);
}

void store_past_caches(const void* from, void* to, std::size_t bytes) {
#if defined(__SSE2__)
  const auto* const source = static_cast<const __m128i*>(from);
  auto* const target = static_cast<__m128i*>(to);
  const std::size_t whole = bytes / sizeof(__m128i);
  for (std::size_t i = 0; i < whole; ++i) _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
  std::memcpy(target + whole, source + whole, bytes % sizeof(__m128i));
#else
  std::memcpy(to, from, bytes);
#endif
}

// Copies words and returns the largest, each without its first bit: of floating-point numbers that
// is the sign, and what is left is ordered like their size, with infinity after all numbers and NaN
// after infinity. `to` begins at a multiple of 16 bytes. It is written past the caches: a copy for
// another thread would only push out what training needs.
template <typename Word>
Word copy_in_blocks(std::span<const Word> from, Word* to) {
  constexpr std::size_t words = cache_block_bytes / sizeof(Word);
  Word result = 0;
  for (std::size_t begin = 0; begin < from.size(); begin += words) {
    const auto block = from.subspan(begin, std::min(words, from.size() - begin));
    result = std::max(result, largest_word(block.data(), block.size()));
    store_past_caches(block.data(), to + begin, block.size_bytes());
  }
#if defined(__SSE2__)
  _mm_sfence();  // whoever is told that the copy is made sees it
#endif
  return result;
}

// Copies with several threads; returns the largest word of all.
template <typename Word>
Word copy_in_chunks(const torch::Tensor& from, const torch::Tensor& to) {
  const auto* const source = static_cast<const Word*>(from.data_ptr());
  auto* const target = static_cast<Word*>(to.data_ptr());
  const std::int64_t words = from.numel(), each = bytes_at_once / std::int64_t{sizeof(Word)};
  std::atomic<Word> largest = 0;
  at::parallel_for(0, (words + each - 1) / each, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto first = begin * each, count = std::min(end * each, words) - first;
    const auto mine =
        copy_in_blocks(std::span(source + first, static_cast<std::size_t>(count)), target + first);
    Word known = largest.load();
    while (known < mine && !largest.compare_exchange_weak(known, mine)) continue;
  });
  return largest.load();
}

// `infinity`: its bits.
template <typename Word>
Values copy_numbers(const torch::Tensor& from, const torch::Tensor& to, Word infinity) {
  const auto largest = copy_in_chunks<Word>(from, to);
  if (largest < infinity) return Values::finite;
  return largest == infinity ? Values::infinite : Values::nan;
}

// Both dense, of the same strides.
Values copy_dense(const torch::Tensor& from, const torch::Tensor& to) {
  switch (from.scalar_type()) {
    case torch::kDouble:
      return copy_numbers<std::uint64_t>(from, to, 0x7ff0'0000'0000'0000);
    case torch::kFloat:
      return copy_numbers<std::uint32_t>(from, to, 0x7f80'0000);
    case torch::kHalf:
      return copy_numbers<std::uint16_t>(from, to, 0x7c00);
    case torch::kBFloat16:
      return copy_numbers<std::uint16_t>(from, to, 0x7f80);
    default:
      std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
      return Values::finite;
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

SnapshotMemory::Copy SnapshotMemory::copy(const torch::Tensor& tensor) {
  const auto dense = as_dense(tensor);
  auto room = room_for(dense);
  if (dense.device().is_cpu()) return {room, copy_dense(dense, room)};
  const torch::NoGradGuard no_gradient;
  room.copy_(dense, /*non_blocking=*/dense.is_cuda());
  return {room, Values::finite};
}

void SnapshotMemory::wait(const torch::Device& device) {
  if (!device.is_cuda()) return;
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

}  // namespace kolo
