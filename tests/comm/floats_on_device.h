#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kolo/comm/data_type.h"
#include "support/simulated_device/memory.h"

namespace kolo::testing {

// Floats on a simulated device.
template <std::int64_t count>
class FloatsOnDevice {
 public:
  explicit FloatsOnDevice(int device = 0)
      : memory_(simulated::make_memory(count * sizeof(float), device)) {}

  [[nodiscard]] Buffer buffer(DeviceStream stream = nullptr, std::int64_t elements = count) const {
    return Buffer::on_device(memory_.get(), elements, DataType::float32, stream);
  }
  [[nodiscard]] std::vector<float> values() const { return {view(), view() + count}; }
  void fill(float value) const { std::fill_n(view(), count, value); }
  [[nodiscard]] std::byte* get() const { return memory_.get(); }

 private:
  [[nodiscard]] float* view() const {
    return reinterpret_cast<float*>(simulated::host_view(memory_.get()));
  }

  simulated::Memory memory_;
};

}  // namespace kolo::testing
