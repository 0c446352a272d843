// Stands in for cosmology_box.cpp in builds without FFTW.
#include "kolo/base/error.h"
#include "kolo/tools/generators.h"

namespace kolo {

namespace {

[[noreturn]] void refuse() {
  throw InputError(
      "data: this kolo was built without FFTW, which making a box of simulated universe takes; "
      "build it with -D KOLO_COSMOLOGY=ON where FFTW is installed (libfftw3-dev)");
}

}  // namespace

bool is_cosmology_built() {
  return false;
}

void check_cosmology_options(const CosmologyOptions& /*options*/) {
  refuse();
}

SimulationBox make_cosmology_box(
    const CosmologyOptions& /*options*/,
    const std::function<void(double fraction, std::string_view phase)>& /*progress*/) {
  refuse();
}

}  // namespace kolo
