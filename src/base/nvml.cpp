#include "kolo/base/nvml.h"

#include <array>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

namespace kolo {

namespace {

// The part of NVML's interface that is used here, as its reference documents it. It is C's, and
// kept by all drivers under these names.
using Status = int;  // nvmlReturn_t
using Device = void*;

constexpr Status success = 0;
constexpr int multiprocessor_clock = 1;  // NVML_CLOCK_SM
constexpr int chip_sensor = 0;           // NVML_TEMPERATURE_GPU
constexpr unsigned version_length = 80;  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

struct Utilization {     // nvmlUtilization_t
  unsigned kernels = 0;  // per cent
  unsigned memory = 0;
};

struct Functions {
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_string)(Status) = nullptr;
  Status (*driver_version)(char*, unsigned) = nullptr;
  Status (*cuda_version)(int*) = nullptr;
  Status (*device_by_pci)(const char*, Device*) = nullptr;
  Status (*utilization)(Device, Utilization*) = nullptr;
  Status (*power)(Device, unsigned*) = nullptr;             // milliwatts
  Status (*power_limit)(Device, unsigned*) = nullptr;       // milliwatts
  Status (*energy)(Device, unsigned long long*) = nullptr;  // millijoules
  Status (*clock)(Device, int, unsigned*) = nullptr;        // MHz
  Status (*temperature)(Device, int, unsigned*) = nullptr;
};

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
}

Functions functions_of(void* handle) {
  Functions all;
  find(handle, "nvmlInit_v2", all.init);
  find(handle, "nvmlShutdown", all.shutdown);
  find(handle, "nvmlErrorString", all.error_string);
  find(handle, "nvmlSystemGetDriverVersion", all.driver_version);
  find(handle, "nvmlSystemGetCudaDriverVersion_v2", all.cuda_version);
  find(handle, "nvmlDeviceGetHandleByPciBusId_v2", all.device_by_pci);
  find(handle, "nvmlDeviceGetUtilizationRates", all.utilization);
  find(handle, "nvmlDeviceGetPowerUsage", all.power);
  find(handle, "nvmlDeviceGetEnforcedPowerLimit", all.power_limit);
  find(handle, "nvmlDeviceGetTotalEnergyConsumption", all.energy);
  find(handle, "nvmlDeviceGetClockInfo", all.clock);
  find(handle, "nvmlDeviceGetTemperature", all.temperature);
  return all;
}

// What a function writes to its last argument; nothing where it is missing or refuses, as it does
// for what a device can't measure.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> asked(Function function, Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != success) return std::nullopt;
  return value;
}

template <typename Value>
std::optional<double> scaled(const std::optional<Value>& value, double factor) {
  if (!value) return std::nullopt;
  return factor * static_cast<double>(*value);
}

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  Functions functions;
  bool is_started = false;
  std::string problem;

  [[nodiscard]] std::string error(Status status) const {
    return functions.error_string == nullptr ? fmt::format("error {}", status)
                                             : std::string(functions.error_string(status));
  }
};

Nvml::Nvml(const std::string& library) : library_(std::make_unique<Library>()) {
  library_->handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_->handle == nullptr) {
    const char* const why = ::dlerror();
    library_->problem = why == nullptr ? library + " can't be opened" : why;
    return;
  }
  auto& functions = library_->functions = functions_of(library_->handle);
  if (functions.init == nullptr || functions.device_by_pci == nullptr) {
    library_->problem =
        fmt::format("{} has no nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2", library);
    return;
  }
  const Status status = functions.init();
  library_->is_started = status == success;
  if (!library_->is_started)
    library_->problem = fmt::format("{} does not start: {}", library, library_->error(status));
}

Nvml::~Nvml() {
  if (library_->is_started && library_->functions.shutdown != nullptr)
    (void)library_->functions.shutdown();
  if (library_->handle != nullptr) (void)::dlclose(library_->handle);
}

const std::string& Nvml::problem() const {
  return library_->problem;
}

std::string Nvml::driver_version() const {
  std::array<char, version_length> text{};
  const auto ask = library_->functions.driver_version;
  if (!library_->is_started || ask == nullptr || ask(text.data(), version_length) != success)
    return {};
  text.back() = '\0';
  return text.data();
}

std::string Nvml::cuda_version() const {
  if (!library_->is_started) return {};
  const auto version = asked<int>(library_->functions.cuda_version);
  return version ? fmt::format("{}.{}", *version / 1000, *version % 1000 / 10) : "";
}

NvmlDevice::NvmlDevice(std::shared_ptr<const Nvml> nvml, const std::string& pci_bus_id)
    : nvml_(std::move(nvml)), problem_(nvml_->problem()) {
  if (!problem_.empty()) return;
  const auto& library = *nvml_->library_;
  const Status status = library.functions.device_by_pci(pci_bus_id.c_str(), &device_);
  if (status != success)
    problem_ = fmt::format("NVML does not know the device at PCI {}: {}", pci_bus_id,
                           library.error(status));
}

NvmlReading NvmlDevice::read() const {
  if (!problem_.empty()) return {};
  const auto& functions = nvml_->library_->functions;
  NvmlReading reading;
  reading.watts = scaled(asked<unsigned>(functions.power, device_), 1e-3);
  reading.joules = scaled(asked<unsigned long long>(functions.energy, device_), 1e-3);
  if (const auto shares = asked<Utilization>(functions.utilization, device_))
    reading.utilization = 1e-2 * shares->kernels;
  reading.megahertz = scaled(asked<unsigned>(functions.clock, device_, multiprocessor_clock), 1);
  reading.celsius = scaled(asked<unsigned>(functions.temperature, device_, chip_sensor), 1);
  return reading;
}

std::optional<double> NvmlDevice::limit_watts() const {
  if (!problem_.empty()) return std::nullopt;
  return scaled(asked<unsigned>(nvml_->library_->functions.power_limit, device_), 1e-3);
}

}  // namespace kolo
