#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "kolo/data/box_files.h"

// Boxes of simulated universe to train on where no simulation can be had: dark matter grown from a
// Gaussian random field by gravity, and the gas in it as simple physics would have it.
namespace kolo {

// Whether this kolo was built with what making boxes takes (CMake's KOLO_COSMOLOGY): without it,
// each function below is an InputError that says so.
[[nodiscard]] bool is_cosmology_built();

struct CosmologyOptions {
  std::int64_t size = 128;  // cells an edge and particles an edge: even, 16 to 1024
  std::uint64_t seed = 1;   // at most 2^53
  std::int64_t crop = 0;    // cells an edge of the corner that is kept; 0: all
  int threads = 1;          // at least 1; the box is the same for any number, to the bit
};

// InputError for options out of their ranges.
void check_cosmology_options(const CosmologyOptions& options);

// Makes a periodic box at redshift 3, of cells of 78.125 comoving kpc/h: Om = .31, OL = .69, Ob =
// .0487, h = .675, n_s = .965, sigma8 = .82. It depends on the options alone, threads not among
// them; machines with other vector units, C libraries or versions of FFTW may round otherwise.
// `progress`, if any, is called on the calling thread with the part done so far, 0 to 1, and what
// is being done. InputError as above.
//
// Sources: Eisenstein and Hu 1998 (power spectrum without wiggles); Carroll, Press and Turner 1992
// (growth); Quinn et al. 1997 (kick-drift-kick); Gnedin and Hui 1998 and Hui and Gnedin 1997
// (pressure smoothing and temperature of intergalactic gas).
[[nodiscard]] SimulationBox make_cosmology_box(
    const CosmologyOptions& options,
    const std::function<void(double fraction, std::string_view stage)>& progress = {});

}  // namespace kolo
