#pragma once

#include <functional>
#include <memory>

#include <torch/types.h>

namespace kolo::parallel {

// Work of a device that is recorded once and then given to it again and again in one call, which
// spares the host what each operator costs it. It does the same to the same memory each time; what
// is to differ is written there before.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // Gives the work to the device, in the order of the current stream.
  virtual void replay() = 0;
};

// Records what `work` gives to the current stream, and does not do it. On CUDA devices that is a
// CUDA graph: nothing in it may wait for the device, and the stream must not be the default one,
// nor be another than that on which the parameters' gradients were first accumulated. Error where
// something can't be recorded. On other devices replay() calls `work`.
[[nodiscard]] std::unique_ptr<DeviceGraph> record_graph(const torch::Device& device,
                                                        std::function<void()> work);

// One that calls `work`.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_repetition(std::function<void()> work);

}  // namespace kolo::parallel
