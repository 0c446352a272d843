#pragma once

#include <string>

namespace kolo {

// InputError where the MPI that is called in this process is not of the kind whose header kolo was
// compiled with: a program is linked with one MPI and kolo with another, or one is preloaded. Their
// handles are of different types, so each call ends the program or does something else. To be asked
// before any call that takes a handle.
void require_one_mpi();

// Where MPI seems not to be initialized: what other MPI there is in this process, whose program has
// perhaps initialized that one: "; this process has two MPIs, ...". Empty: there is no other.
[[nodiscard]] std::string describe_other_mpi();

}  // namespace kolo
