#include "support/fake_nvml.h"

#include <cstdio>
#include <cstring>

namespace kolo::testing {

FakeNvml fake_nvml;

namespace {

// A value, unless a status stands in its place.
template <typename Value>
int answer(int status, Value value, Value* place) {
  if (status == 0) *place = value;
  return status;
}

constexpr int not_found = 6, not_supported = 3;  // NVML_ERROR_NOT_FOUND, NVML_ERROR_NOT_SUPPORTED

int answer_to(void* device, int status) {
  return device == &fake_nvml ? status : not_supported;
}

}  // namespace

extern "C" {

struct FakeUtilization {
  unsigned kernels, memory;
};

int nvmlInit_v2() {
  if (fake_nvml.init_status == 0) ++fake_nvml.started;
  return fake_nvml.init_status;
}

int nvmlShutdown() {
  --fake_nvml.started;
  return 0;
}

const char* nvmlErrorString(int status) {
  return status == not_found ? "Not Found" : "Driver Not Loaded";
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  (void)std::snprintf(text, length, "580.65.06");
  return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12080;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** device) {
  return answer<void*>(std::strcmp(place, fake_nvml_place) == 0 ? 0 : not_found, &fake_nvml,
                       device);
}

int nvmlDeviceGetUtilizationRates(void* device, FakeUtilization* shares) {
  return answer(answer_to(device, fake_nvml.utilization_status), {fake_nvml.busy_percent, 1},
                shares);
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  ++fake_nvml.readings;
  return answer(answer_to(device, fake_nvml.power_status), fake_nvml.milliwatts.load(), milliwatts);
}

int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return answer(answer_to(device, 0), 700'000U, milliwatts);
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  return answer(sensor == 0 ? answer_to(device, 0) : not_supported, fake_nvml.celsius.load(),
                celsius);
}

#ifndef KOLO_FAKE_NVML_IS_OLD
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  return answer(answer_to(device, 0), fake_nvml.millijoules.load(), millijoules);
}

int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* megahertz) {
  return answer(clock == 1 ? answer_to(device, 0) : not_supported, fake_nvml.megahertz.load(),
                megahertz);
}
#endif

}  // extern "C"

}  // namespace kolo::testing
