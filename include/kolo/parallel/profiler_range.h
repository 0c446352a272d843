#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace kolo {

// A range of the host's time that NVIDIA's profilers show under its name (NVTX), with a number
// beside it. Costs next to nothing where none looks on; nothing where kolo is built without CUDA.
class ProfilerRange {
 public:
  ProfilerRange() = default;
  explicit ProfilerRange(std::string_view name, std::int64_t number = 0);
  ProfilerRange(ProfilerRange&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  ProfilerRange& operator=(ProfilerRange&& other) noexcept {
    end();
    id_ = std::exchange(other.id_, 0);
    return *this;
  }
  ~ProfilerRange() { end(); }

  void end() noexcept;

 private:
  std::uint64_t id_ = 0;  // 0: none, or nobody looks on
};

}  // namespace kolo
