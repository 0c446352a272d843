#pragma once

#include <cstdint>
#include <string>

// The oneDNN that convolutions are computed by, in words.
namespace kolo {

// The oneDNN that kolo computes by: "2.6.0, instruction set AVX2". Empty where kolo was built
// without, because LibTorch has one inside, and LibTorch's convolutions compute.
[[nodiscard]] std::string onednn_description();

// oneDNN's name of the implementation that computes a usual convolution of 2 or 3 dimensions on
// this processor, for example "brgconv:avx512_core"; empty where it has nothing vectorized, and
// LibTorch's own operators compute.
[[nodiscard]] std::string convolution_implementation(std::int64_t dimensions);

// Tells whether this processor has products of bfloat16, twice as fast as those of float32 or
// faster. False where kolo is built without a oneDNN of its own: LibTorch's operators do what they
// can.
[[nodiscard]] bool multiplies_bfloat16();

}  // namespace kolo
