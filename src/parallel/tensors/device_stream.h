#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <c10/core/StreamGuard.h>
#include <torch/types.h>

#include "kolo/comm/data_type.h"

namespace kolo::parallel {

// The stream that LibTorch gives this thread's work on the device to. Null, the device's default
// stream, for devices other than CUDA's, and where kolo is built without CUDA.
[[nodiscard]] DeviceStream current_stream(const c10::Device& device);

// Tells whether what the current stream is given is recorded for a graph of the device, and not
// done.
[[nodiscard]] bool is_recording(const c10::Device& device);

// Records work that a device is then given again and again in one call of what is returned, which
// spares the host what each operator costs it. It does the same to the same memory each time; what
// is to differ is written there before.
//
// On CUDA devices that is a CUDA graph of what `work` gives to the current stream, and does not do
// yet: nothing in it may wait for the device, and the stream must not be the default one, nor be
// another than that on which the parameters' gradients were first accumulated. Error where
// something can't be recorded. On other devices the result is `work`.
[[nodiscard]] std::function<void()> record_graph(const torch::Device& device,
                                                 std::function<void()> work);

// The stream of the thread that asks for a task, for the one that does it: what the task gives the
// device then follows what the first thread gave it before, and whoever waits for the task may use
// the result. Nothing for tensors of the host.
class TaskStream {
 public:
  [[nodiscard]] static TaskStream of(const torch::Tensor& tensor);
  // As long as what it returns lives.
  [[nodiscard]] std::unique_ptr<c10::StreamGuard> enter() const {
    return stream_ ? std::make_unique<c10::StreamGuard>(*stream_) : nullptr;
  }

 private:
  std::optional<c10::Stream> stream_;
};

}  // namespace kolo::parallel
