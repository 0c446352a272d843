#pragma once

#include <string>
#include <vector>

#include "kolo/report/run_record.h"
#include "report/scalar_tags.h"

namespace kolo {

// All values of one scalar of a run.
struct TaggedCurve {
  std::string tag;
  std::string folder_part;
  TagMeaning meaning;
  bool by_step = false;  // as in Curve
  std::vector<CurvePoint> points;
};

}  // namespace kolo
