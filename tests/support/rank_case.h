#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "kolo/comm/communicator.h"

namespace kolo::testing {

// A test that all ranks run together, over whatever back end their communicator has. It asserts
// with GoogleTest's EXPECT_.
struct RankCase {
  std::string name;
  std::function<void(const Communicator&)> run;
};

// What GoogleTest shows of one.
inline void PrintTo(const RankCase& rank_case, std::ostream* stream) {
  *stream << rank_case.name;
}

}  // namespace kolo::testing
