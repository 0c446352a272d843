#pragma once

#include <array>
#include <cstdint>

#include "kolo/base/enum_names.h"

namespace kolo {

// Pictures that a validation shows of each image: the image; with its mirror image; or both of
// these and of the image moved by a pixel up and left, and down and right, which count half. The
// outputs are averaged.
enum class ValidationViews : std::uint8_t { one, mirrored, moved };

constexpr auto enum_names(ValidationViews) {
  return std::to_array<EnumName<ValidationViews>>({{ValidationViews::one, "one"},
                                                   {ValidationViews::mirrored, "mirrored"},
                                                   {ValidationViews::moved, "moved"}});
}

}  // namespace kolo
