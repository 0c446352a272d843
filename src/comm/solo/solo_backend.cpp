#include "comm/solo/solo_backend.h"

#include <cstring>

#include <fmt/format.h>

#include "comm/aligned_memory.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

void copy(const ConstBuffer& from, const Buffer& to) {
  if (from.bytes() > 0) std::memmove(to.data, from.data, from.bytes());
}

}  // namespace

Capabilities SoloBackend::capabilities() const {
  return {.backend = "solo",
          .transport = "none",
          .thread_level = "",
          .asynchronous = false,
          .shared_memory = false,
          .concurrent = true};
}

void SoloBackend::all_gather(const ConstBuffer& input, const Buffer& output) {
  copy(input, output);
}

void SoloBackend::all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                                    std::span<const std::int64_t>) {
  copy(input, output);
}

void SoloBackend::reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp, int) {
  copy(input, output);
}

void SoloBackend::all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                             const Buffer& output, std::span<const std::int64_t> receive_counts) {
  if (send_counts[0] != receive_counts[0]) {
    throw Error(fmt::format("comm: all-to-all: rank 0 sends {} {} to rank 0, which expects {}",
                            send_counts[0], name_of(input.type), receive_counts[0]));
  }
  copy(input, output);
}

std::shared_ptr<std::byte> SoloBackend::allocate(std::size_t bytes) {
  return allocate_aligned(bytes);
}

std::vector<std::shared_ptr<std::byte>> SoloBackend::allocate_shared(std::size_t bytes) {
  return {allocate_aligned(bytes)};
}

std::shared_ptr<std::byte> SoloBackend::allocate_for_node(std::size_t bytes) {
  return allocate_aligned(bytes);
}

std::shared_ptr<Backend> SoloBackend::split(int color, int) {
  return color < 0 ? nullptr : std::make_shared<SoloBackend>();
}

}  // namespace kolo
