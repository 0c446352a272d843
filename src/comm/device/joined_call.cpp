#include "comm/device/joined_call.h"

namespace kolo {

JoinedCall::JoinedCall(const DeviceRuntime& runtime, int device, DeviceStream stream,
                       const CollectiveCall& call)
    : there_(call),
      input_(runtime.allocate(device, call.input.bytes() + 1)),
      output_(runtime.allocate(device, call.output.bytes() + 1)) {
  if (call.input.bytes() > 0)
    runtime.copy(device, input_.get(), call.input.data, call.input.bytes(), stream);
  there_.input = ConstBuffer(input_.get(), call.input.count, call.input.type);
  const bool is_in_place = traits_of(call.collective).buffers == BufferShape::in_place;
  there_.output =
      Buffer(is_in_place ? input_.get() : output_.get(), call.output.count, call.output.type);
}

}  // namespace kolo
