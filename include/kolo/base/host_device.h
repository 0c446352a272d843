#pragma once

// KOLO_HOST_DEVICE in front of a function compiles it for CUDA devices too, where a CUDA compiler
// reads it. Elsewhere it is empty. What must give the same bits on both sides is compiled with
// -ffp-contract=off here and -fmad=false there; square roots and divisions are exact to the last
// bit on both.
#if defined(__CUDACC__)
#define KOLO_HOST_DEVICE __host__ __device__
#else
#define KOLO_HOST_DEVICE
#endif
