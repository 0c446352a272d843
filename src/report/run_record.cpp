#include "kolo/report/run_record.h"

#include <algorithm>
#include <string_view>

namespace kolo {

const Curve* RunRecord::find(std::string_view quantity, std::string_view part, bool by_step) const {
  const auto curve = std::ranges::find_if(curves, [&](const Curve& candidate) {
    return candidate.quantity == quantity && candidate.part == part && candidate.by_step == by_step;
  });
  return curve == curves.end() ? nullptr : &*curve;
}

}  // namespace kolo
