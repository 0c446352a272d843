#pragma once

#include <functional>
#include <string>

#include "kolo/comm/communicator.h"

namespace kolo::testing {

// A test that all ranks run together, over whatever back end their communicator has. It asserts
// with GoogleTest's EXPECT_.
struct RankCase {
  std::string name;
  std::function<void(const Communicator&)> run;
};

}  // namespace kolo::testing
