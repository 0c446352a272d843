#pragma once

#include <array>
#include <cstdint>

#include "kolo/base/enum_names.h"

namespace kolo {

// Treatment of a sample that can't be read (an InputError of the dataset: a file that is damaged or
// gone).
enum class BadSamples : std::uint8_t {
  stop,  // the error comes out of next()
  // The next sample of the dataset that can be read takes its place, of the same epoch: which one
  // depends on nothing but the data, so it is the same on any number of ranks, and in a run that
  // goes on.
  skip
};

constexpr auto enum_names(BadSamples) {
  return std::to_array<EnumName<BadSamples>>(
      {{BadSamples::stop, "stop"}, {BadSamples::skip, "skip"}});
}

}  // namespace kolo
