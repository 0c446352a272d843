#pragma once

#include <cstdint>
#include <string_view>

#include "kolo/nn/models.h"

namespace kolo {

// The channels of a model's input, which must be an image of at least minimum x minimum pixels:
// channels, height, width. InputError for any other.
[[nodiscard]] std::int64_t channels_of(const ModelOptions& options, std::string_view model,
                                       std::int64_t minimum);

}  // namespace kolo
