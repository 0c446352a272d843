#pragma once

#include <nlohmann/json.hpp>

#include "online/samples.h"

namespace kolo::online {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorShape, is_integer, lengths)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SampleShapes, inputs, targets, extras)

}  // namespace kolo::online
