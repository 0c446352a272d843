#pragma once

#include <cstdlib>  // defines __GLIBC__, where that is the C library

// KOLO_VECTORIZE in front of a function has it compiled several times, for different vector units;
// the loader takes the version that suits the processor. Packages are built for the oldest
// processors of an architecture; this gives loops over flat buffers the width of the one at hand.
//
// Use it on functions at namespace scope that hold the loop, and on templates of such that are
// instantiated in their own file. What the loop calls must be inlined, or it is compiled for the
// oldest processor: templates of the same file, and lambdas, marked KOLO_INLINE unless they are
// tiny. Compile that file with -O3 -fno-math-errno -ffp-contract=off. The last one matters: only
// some versions have a fused multiply-add, and the ranks of a job must round alike on whatever
// processors they run. For the same reason never use -ffast-math.
//
// The widest version is for AVX-512 with its instructions on 16-bit values (x86-64-v4, all
// processors with AVX-512 but Knights Landing): without them loops over bfloat16 take up to twice
// as long.
//
// KOLO_VECTORIZE is empty where it can't work: choosing at load time is a feature of GCC with the
// GNU C library, and it comes before a sanitizer is ready for instrumented code.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KOLO_VECTORIZE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define KOLO_VECTORIZE
#endif
#define KOLO_INLINE __attribute__((always_inline))
