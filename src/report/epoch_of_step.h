#pragma once

#include <utility>
#include <vector>

namespace kolo {

// How many epochs are done when so many steps are, from places where both are known: in proportion
// between them, and on at the last stretch's pace. Training begins at step 0.
class EpochOfStep {
 public:
  // Places come in order; one that is not beyond the last is left out.
  void add(double step, double epoch);
  // not_measured without any place.
  [[nodiscard]] double at(double step) const;

 private:
  std::vector<std::pair<double, double>> places_ = {{0, 0}};
};

}  // namespace kolo
