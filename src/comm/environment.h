#pragma once

#include "kolo/comm/mpi.h"

namespace kolo {

// The options with what environment variables say in place of what they hold: KOLO_WATCH (on, off),
// KOLO_WATCH_WARNING and KOLO_WATCH_LIMIT (seconds, 0: never), KOLO_WATCH_FOLDER, KOLO_CHECKED (0,
// 1). InputError for a value that is none of these.
[[nodiscard]] MpiOptions with_environment(MpiOptions options);

}  // namespace kolo
