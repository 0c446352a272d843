#pragma once

#include <cstdint>
#include <vector>

#include "kolo/kolo.h"
#include "kolo/online/array.h"

namespace kolo::bindings {

// Arrays of a call's argument `name`. InputError names the argument, the array and the field:
// "inputs[1]: dtype is 9; expected KOLO_FLOAT32 (1), ...".
[[nodiscard]] std::vector<Array> arrays_of(const char* name, const kolo_array* arrays,
                                           std::int32_t count);

}  // namespace kolo::bindings
