#pragma once

#include <memory>

#include "kolo/parallel/gradient_hook.h"

namespace kolo {

// Averages gradients in a type of 16 bits: half the bytes of float32 on the wire (three quarters
// between nodes that have several ranks each, whose sums travel as float32), for two passes over
// the gradients on the communication thread and memory for a copy of them in 16 bits.
// Gradients of float64 are compressed too; those of 16 bits travel as they are. One rank's
// gradients stay as they are.
//
// float16 keeps 11 significant bits and ends at 65504: a gradient that is larger becomes infinite
// (FiniteCheck sees it), and what is below 6e-8 becomes 0. bfloat16 has float32's range and 8
// significant bits. Averages of gradients in range stay in range. A predivide_factor divides before
// and multiplies after, for gradients that are themselves out of range, at the cost of as much at
// the lower end. Error for a factor that is not finite and greater than 0.
[[nodiscard]] std::shared_ptr<GradientHook> float16_compression(double predivide_factor = 1);
[[nodiscard]] std::shared_ptr<GradientHook> bfloat16_compression(double predivide_factor = 1);

}  // namespace kolo
