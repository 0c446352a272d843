#pragma once

namespace kolo {

// Of MPI that kolo has initialized: has it finalized where the process ends by exit(0), or by
// returning from main(), while communicators live. exit() destroys no locals, and a handle may be
// lost; without MPI_Finalize launchers take a job that is done for one that has failed. With
// another status nothing is done: the launcher is to see it at once. Where the end can't be made,
// it is said why.
void finalize_at_exit(int rank);

}  // namespace kolo
