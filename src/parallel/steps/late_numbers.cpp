#include <chrono>
#include <thread>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "kolo/base/clock.h"
#include "kolo/parallel/training_step.h"

namespace kolo {

LateNumbers::LateNumbers(const torch::Tensor& numbers) {
  const torch::NoGradGuard no_gradient;
  const auto& device = numbers.device();
  if (device.is_cpu()) {
    copy_ = numbers;
    return;
  }
  copy_ = torch::empty(numbers.sizes(),
                       torch::TensorOptions(torch::kDouble).pinned_memory(device.is_cuda()));
  copy_.copy_(numbers, /*non_blocking=*/true);
  copied_ = std::make_shared<c10::Event>(device.type());
  copied_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

// LibTorch before 2.5 can't wait for an event. It is asked often at first, for the steps of small
// networks.
std::vector<double> LateNumbers::get() const {
  constexpr auto pause = std::chrono::microseconds(50);
  const Stopwatch watch;
  while (copied_ && !copied_->query()) {
    if (watch.seconds() < 2e-4)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(pause);
  }
  const auto* const first = copy_.data_ptr<double>();
  return {first, first + copy_.numel()};
}

}  // namespace kolo
