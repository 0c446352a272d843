#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/types.h>

// LibTorch's default random generators, which the whole process shares.
namespace kolo {

// Generators that computing on a device draws from: the host's and, on a CUDA device, its own.
[[nodiscard]] inline std::vector<at::Generator> default_generators(
    const torch::Device& device = torch::kCPU) {
  std::vector<at::Generator> generators = {at::detail::getDefaultCPUGenerator()};
  if (device.is_cuda()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

inline void seed_generators(std::uint64_t seed, const torch::Device& device = torch::kCPU) {
  for (auto generator : default_generators(device)) {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

// Remembers the generators' states, to go back to.
class GeneratorStates {
 public:
  explicit GeneratorStates(const torch::Device& device = torch::kCPU) {
    for (auto& generator : default_generators(device)) {
      const std::lock_guard lock(generator.mutex());
      states_.emplace_back(generator, generator.get_state());
    }
  }
  void restore() const {
    for (auto [generator, state] : states_) {
      const std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  std::vector<std::pair<at::Generator, torch::Tensor>> states_;
};

// Lock for whoever seeds the generators and then draws weights: ranks may be threads of one
// process, and seeding while another draws would change that one's weights.
class DrawAlone {
 public:
  DrawAlone() : turn_(turns()) {}

 private:
  static std::mutex& turns() {
    static std::mutex mutex;
    return mutex;
  }
  std::lock_guard<std::mutex> turn_;
};

// Puts the generators back at its end, whatever was drawn while it lives.
class KeepGenerators {
 public:
  KeepGenerators() = default;
  // Also seeds them, so that draws depend on the seed alone.
  explicit KeepGenerators(std::uint64_t seed) { seed_generators(seed); }
  KeepGenerators(const KeepGenerators&) = delete;
  KeepGenerators& operator=(const KeepGenerators&) = delete;
  ~KeepGenerators() { states_.restore(); }

 private:
  GeneratorStates states_;
};

}  // namespace kolo
