#pragma once

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
