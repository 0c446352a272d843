#include "kolo/parallel/initialize.h"

namespace kolo {

std::string device_name(const torch::Device& device) {
  return device.is_cpu() ? std::string() : device.str();
}

}  // namespace kolo
