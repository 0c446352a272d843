#include "parallel/tensors/device_stream.h"

namespace kolo::parallel {

DeviceStream current_stream(const c10::Device& /*device*/) {
  return nullptr;
}

bool is_recording(const c10::Device& /*device*/) {
  return false;
}

}  // namespace kolo::parallel
