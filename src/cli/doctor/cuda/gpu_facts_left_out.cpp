#include "cli/doctor/gpu_facts.h"

namespace kolo {

std::optional<GpuFacts> gpu_facts() {
  return std::nullopt;
}

}  // namespace kolo
