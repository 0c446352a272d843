#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <torch/types.h>

#include "kolo/nn/autocast.h"
#include "kolo/nn/network.h"

namespace kolo {

// Kernels that compute a convolution on CPUs, and what each took.
struct KernelChoice {
  std::string kernel;                          // the fastest
  std::map<std::string, double> milliseconds;  // forward and backward, by kernel

  bool operator==(const KernelChoice&) const = default;
};

// By convolution: "32 x 64x16x16 to 64, 3x3, stride 1x1, padding 1x1, float32, 1 thread". Kolo's
// convolutions take the kernel that stands here, and where none does the one that was the fastest
// on the machines it was written on.
using KernelChoices = std::map<std::string, KernelChoice>;

// As JSON, {convolution: {"kernel": name, "milliseconds": {name: number}}}.
[[nodiscard]] std::string to_json(const KernelChoices& choices);
// Error for anything else.
[[nodiscard]] KernelChoices kernel_choices_from_json(std::string_view text);

// While one lives, this thread's networks take these choices; a null pointer is none.
class UseKernels {
 public:
  explicit UseKernels(std::shared_ptr<const KernelChoices> choices)
      : before_(std::exchange(in_use, std::move(choices))) {}
  UseKernels(const UseKernels&) = delete;
  UseKernels& operator=(const UseKernels&) = delete;
  ~UseKernels() { in_use = std::move(before_); }

  [[nodiscard]] static const std::shared_ptr<const KernelChoices>& current() { return in_use; }

 private:
  // By thread, as LibTorch's own modes are.
  inline static thread_local std::shared_ptr<const KernelChoices> in_use;

  std::shared_ptr<const KernelChoices> before_;
};

// What is `known` of the convolutions that a network does for a batch of that shape; nothing where
// some would have to be tried. Costs what measure_kernels() does where all is known.
[[nodiscard]] std::optional<KernelChoices> known_kernels(Network& network,
                                                         at::IntArrayRef batch_shape,
                                                         Precision precision,
                                                         const KernelChoices& known);

// The fastest kernels for all convolutions that a network does for a batch of that shape: as they
// are `known`, or tried. Computes one forward pass of zeros in evaluation mode and without
// gradients, and leaves the network as it was. Local, on the CPU with as many threads as LibTorch
// has; takes some ten steps' time for what is not known, and otherwise that of the pass. `progress`
// is told, before each that is not known, how many were tried and how many are to be. `stops` is
// asked before each kernel; when it says so, what was found until then is returned.
[[nodiscard]] KernelChoices measure_kernels(
    Network& network, at::IntArrayRef batch_shape, Precision precision,
    const KernelChoices& known = {},
    const std::function<void(std::size_t, std::size_t)>& progress = [](std::size_t, std::size_t) {},
    const std::function<bool()>& stops = [] { return false; });

}  // namespace kolo
