#include "comm/solo/solo_backend.h"

#include <cstring>

#include "comm/aligned_memory.h"

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
          .shared_memory = false};
}

void SoloBackend::all_gather(const ConstBuffer& input, const Buffer& output) {
  copy(input, output);
}

void SoloBackend::reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp) {
  copy(input, output);
}

std::shared_ptr<std::byte> SoloBackend::allocate(std::size_t bytes) {
  return allocate_aligned(bytes);
}

}  // namespace kolo
