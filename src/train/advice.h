#pragma once

#include <string>

namespace kolo {

// What to do when numbers are not finite any more. `skips`: steps that are not are left out
// already.
inline std::string advice_on_what_is_not_finite(bool skips = false) {
  const std::string advice =
      "Go on from an earlier checkpoint, where there is one (--resume, --resume best or --resume "
      "STEP), with a lower learning rate, a warm-up or training.clip_norm";
  return advice + (skips ? "" : ", or leave bad steps out with training.non_finite=skip");
}

}  // namespace kolo
