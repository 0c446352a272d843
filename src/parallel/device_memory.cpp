#include "kolo/parallel/device_memory.h"

#include <fmt/format.h>

namespace kolo {

namespace {

std::string gibibytes(double bytes) {
  return fmt::format("{:.2f} GiB", bytes / (1 << 30));
}

}  // namespace

std::string describe_out_of_memory(std::string_view phase, const torch::Device& device,
                                   const std::optional<DeviceMemoryUse>& use,
                                   std::string_view problem) {
  std::string text = fmt::format("device: {} has too little memory for this step: {} did not fit",
                                 device.str(), phase);
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
                    problem.substr(0, problem.find('\n')));
}

Error out_of_memory(std::string_view phase, const torch::Device& device,
                    const c10::OutOfMemoryError& error) {
  return Error(
      describe_out_of_memory(phase, device, memory_use(device), error.what_without_backtrace()));
}

}  // namespace kolo
