#pragma once

#include <memory>
#include <optional>
#include <string>

// NVIDIA's management library (NVML), which comes with the driver: what devices take and do. It is
// opened when the program runs, so nothing needs it to build or to start.
namespace kolo {

// What it tells of a device at a moment; nothing where it does not tell.
struct NvmlReading {
  std::optional<double> watts;
  std::optional<double> joules;       // since the driver was loaded
  std::optional<double> utilization;  // of the last second or less, in which share a kernel ran
  std::optional<double> megahertz;    // of its multiprocessors
  std::optional<double> celsius;
};

// Thread-safe.
class Nvml {
 public:
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  // Why it tells nothing at all; empty: it is there.
  [[nodiscard]] const std::string& problem() const;
  // The driver's, "580.65.06", and the newest CUDA that it runs, "13.0"; empty: not told.
  [[nodiscard]] std::string driver_version() const;
  [[nodiscard]] std::string cuda_version() const;

 private:
  friend class NvmlDevice;
  struct Library;
  std::unique_ptr<Library> library_;
};

// One device, by its place on the PCI bus ("0000:41:00.0"): numbers of devices depend on
// CUDA_VISIBLE_DEVICES, and NVML's do not. Thread-safe.
class NvmlDevice {
 public:
  NvmlDevice(std::shared_ptr<const Nvml> nvml, const std::string& pci_bus_id);

  // Why it tells nothing; empty: it does.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] NvmlReading read() const;
  // At which its clocks are lowered.
  [[nodiscard]] std::optional<double> limit_watts() const;

 private:
  std::shared_ptr<const Nvml> nvml_;
  void* device_ = nullptr;
  std::string problem_;
};

}  // namespace kolo
