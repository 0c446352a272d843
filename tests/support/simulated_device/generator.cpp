#include "support/simulated_device/internals.h"

#include <array>
#include <memory>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>

#include "support/simulated_device/device.h"

namespace kolo::testing::simulated {
namespace {

// Some versions of LibTorch lack the functions without `override`.
class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  DeviceGenerator(c10::Device of, at::Generator behind)
      : GeneratorImpl(of, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        behind_(std::move(behind)) {}

  [[nodiscard]] const at::Generator& behind() const { return behind_; }

  void set_current_seed(std::uint64_t seed) override { behind_.set_current_seed(seed); }
  [[nodiscard]] std::uint64_t current_seed() const override { return behind_.current_seed(); }
  std::uint64_t seed() override { return behind_.seed(); }
  void set_state(const c10::TensorImpl& state) override {
    behind_.unsafeGetGeneratorImpl()->set_state(state);
  }
  [[nodiscard]] c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return behind_.unsafeGetGeneratorImpl()->get_state();
  }
  void set_offset(std::uint64_t /*offset*/) {}
  [[nodiscard]] std::uint64_t get_offset() const { return 0; }

 private:
  [[nodiscard]] DeviceGenerator* clone_impl() const override {
    return std::make_unique<DeviceGenerator>(device(), behind_.clone()).release();
  }

  at::Generator behind_;
};

at::Generator make(c10::DeviceIndex index, at::Generator behind) {
  return at::make_generator<DeviceGenerator>(device(index < 0 ? 0 : index), std::move(behind));
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const std::array<at::Generator, kDevices> all{
      make(0, at::detail::getDefaultCPUGenerator()), make(1, at::detail::getDefaultCPUGenerator())};
  return all.at(static_cast<std::size_t>(index < 0 ? 0 : index));
}

at::Generator new_generator(c10::DeviceIndex index) {
  return make(index, at::detail::createCPUGenerator());
}

at::Generator host_generator(const at::Generator& generator) {
  const auto* own = dynamic_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl());
  return own == nullptr ? generator : own->behind();
}

}  // namespace kolo::testing::simulated
