#pragma once

#include <cstdint>
#include <span>

#include "kolo/comm/data_type.h"

namespace kolo {

// Every destination becomes the reduction of the sources, in the order given, times 1/divisor
// (integers are divided; divisor 1: nothing). Destinations may be among the sources; they must not
// overlap one in part. One pass: each source is read and each destination written once.
void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::int64_t count, int divisor);

// The same for one buffer: values /= divisor.
void divide(DataType type, std::byte* values, std::int64_t count, int divisor);

}  // namespace kolo
