#include "cli/doctor/checks.h"

namespace kolo {

std::optional<GpuFacts> gpu_facts() {
  return std::nullopt;
}

}  // namespace kolo
