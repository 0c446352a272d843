#pragma once

#include <functional>
#include <span>
#include <string>

#include "kolo/comm/communicator.h"

namespace kolo::testing {

// What every back end must do, each case a function that all ranks call together. They assert with
// GoogleTest's EXPECT_.
struct CollectiveCase {
  std::string name;
  std::function<void(const Communicator&)> run;
};

[[nodiscard]] std::span<const CollectiveCase> collective_cases();

}  // namespace kolo::testing
