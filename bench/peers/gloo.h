#pragma once

#include <functional>
#include <span>

namespace kolo {

// PyTorch's gloo, as torch.distributed uses it on processors: a sum over all ranks of
// MPI_COMM_WORLD in place, over loopback. Empty where LibTorch was built without gloo, or its
// headers are missing (Debian: libgloo-dev). Collective.
[[nodiscard]] std::function<void(std::span<float>)> gloo_all_reduce(int rank, int size);

}  // namespace kolo
