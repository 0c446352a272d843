#pragma once

#include <functional>

#include "data/generators/cosmology/initial_conditions.h"
#include "data/generators/cosmology/mesh.h"
#include "data/generators/cosmology/universe.h"

namespace kolo::cosmology {

// Lets particles fall through each other's gravity from scale factor `from` to `to`, in kick-drift-
// kick steps uniform in ln a; forces come from a mesh of one cell a particle. `stepped` is called
// with the steps done after each. Sources: Hockney and Eastwood 1988 (particle-mesh forces); Quinn
// et al. 1997 (the steps).
void evolve(const Mesh& mesh, const Universe& universe, double from, double to, int steps,
            Particles& particles, const std::function<void(int)>& stepped);

}  // namespace kolo::cosmology
