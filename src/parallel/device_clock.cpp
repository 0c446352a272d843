#include "kolo/parallel/device_clock.h"

#include <string_view>

#include <fmt/format.h>

#include "kolo/base/text.h"
#include "kolo/parallel/device_memory.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

DeviceClock::DeviceClock(const torch::Device& device, std::shared_ptr<const DeviceRuntime> runtime)
    : device_(device) {
  if (device.is_cpu()) return;
  if (!runtime && device.is_cuda()) runtime = cuda_runtime();
  runtime_ = std::move(runtime);
}

DeviceClock::Moment DeviceClock::now() const {
  if (!runtime_) return Moment(std::chrono::steady_clock::now());
  const int index = device_.has_index() ? device_.index() : runtime_->current_device();
  return Moment(runtime_->record_timed(index, parallel::current_stream(device_)));
}

double DeviceClock::Moment::seconds_since(const Moment& earlier) const {
  if (!is_known() || !earlier.is_known()) return 0;
  if (event_) return event_->seconds_since(*earlier.event_);
  return std::chrono::duration<double>(host_ - earlier.host_).count();
}

// Skips unknown moments: while a CUDA graph is captured no event may be queried.
void DeviceTimeSum::add(DeviceClock::Moment from, DeviceClock::Moment to) {
  if (!from.is_known() || !to.is_known()) return;
  under_way_.emplace_back(std::move(from), std::move(to));
  while (!under_way_.empty() && under_way_.front().second.is_past()) {
    done_ += under_way_.front().second.seconds_since(under_way_.front().first);
    under_way_.pop_front();
  }
}

double DeviceTimeSum::seconds() {
  for (const auto& [from, to] : under_way_) done_ += to.seconds_since(from);
  under_way_.clear();
  return done_;
}

namespace {

std::string gibibytes(double bytes) {
  return fmt::format("{:.2f} GiB", bytes / (1 << 30));
}

}  // namespace

std::string describe_out_of_memory(std::string_view phase, const torch::Device& device,
                                   const std::optional<DeviceMemoryUse>& use,
                                   std::string_view problem) {
  std::string text =
      fmt::format("device: {} has too little memory: {} did not fit", device.str(), phase);
  if (use) {
    const auto& [free, total] = use->device;
    text += fmt::format(
        " ({} of {} free; this rank's tensors took {} at most, LibTorch has reserved {})",
        gibibytes(static_cast<double>(free)), gibibytes(static_cast<double>(total)),
        gibibytes(static_cast<double>(use->peak_allocated_bytes)),
        gibibytes(static_cast<double>(use->peak_reserved_bytes)));
  }
  return text + fmt::format(
                    "; use a smaller training.batch_size or training.precision=bf16, more GPUs, or "
                    "end other programs on this one. LibTorch: {}",
                    first_line_of(problem));
}

}  // namespace kolo
