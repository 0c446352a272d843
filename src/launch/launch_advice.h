#pragma once

#include <string>

#include "kolo/launch/launch_environment.h"

// What goes wrong when a launcher and the MPI that this program is linked with do not know one
// another: each process believes to be alone, and would train and write the same files.
namespace kolo {

struct LinkedMpi {
  bool is_open_mpi = true;
  std::string name;  // "Open MPI v4.1.4", "MPICH 4.0.2"
};

// From what mpi_library_version() says.
[[nodiscard]] LinkedMpi parse_mpi_version(const std::string& version);

// Before MPI is initialized, which can end the program without a word of ours. `insist`: the user
// has said that MPI is to be used, so only what can't work is refused. InputError.
void require_suitable_launcher(const LaunchEnvironment& environment, const LinkedMpi& mpi,
                               bool insist);

// Once MPI has said how many ranks it sees. InputError when the launcher started another number.
void require_all_ranks(const LaunchEnvironment& environment, const LinkedMpi& mpi, int size);

}  // namespace kolo
