#pragma once

#include <memory>

#include "kolo/comm/collective_call.h"
#include "kolo/comm/device.h"

namespace kolo {

// The call of a rank that has joined, whose values are in the host's memory and whose result nobody
// needs, with buffers on the device.
class JoinedCall {
 public:
  JoinedCall(const DeviceRuntime& runtime, int device, DeviceStream stream,
             const CollectiveCall& call);

  // The input is there when the stream has come to here.
  [[nodiscard]] const CollectiveCall& there() const { return there_; }

 private:
  CollectiveCall there_;
  std::shared_ptr<std::byte> input_, output_;
};

}  // namespace kolo
