#include "parallel/tensors/device_stream.h"

namespace kolo::parallel {

DeviceStream current_stream(const c10::Device& /*device*/) {
  return nullptr;
}

}  // namespace kolo::parallel
