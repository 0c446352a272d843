#pragma once

#include <array>

#include "kolo/base/enum_names.h"

namespace kolo {

// Treatment of a step whose numbers are not finite, the same on all ranks.
enum class NonFiniteStep {
  // Error when the loss of a step is not finite on any rank. Costs nothing, as the losses are added
  // up anyway; what a step does to the parameters shows in the next one's loss, or at the epoch's
  // end.
  stop,
  // Loss and averaged gradients are looked at before they are used, and the step is left out: no
  // parameter, buffer or mean loss has anything of it. Error after many in a row (FiniteCheck).
  // Costs a pass over the gradients and a copy of the buffers, and the buckets' updates no longer
  // overlap the communication of later ones.
  skip,
  // Goes on, as long as the parameters are finite at the epoch's end; a validation whose loss isn't
  // is never the best.
  ignore
};

constexpr auto enum_names(NonFiniteStep) {
  return std::to_array<EnumName<NonFiniteStep>>({{NonFiniteStep::stop, "stop"},
                                                 {NonFiniteStep::skip, "skip"},
                                                 {NonFiniteStep::ignore, "ignore"}});
}

}  // namespace kolo
