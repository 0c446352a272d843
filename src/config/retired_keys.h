#pragma once

#include "settings/value.h"

namespace kolo {

// Refuses keys that earlier versions had: the InputError says what to do instead. A run's own
// record may have them; they are removed from it.
void settle_retired_keys(ConfigValue& root, bool is_record);

}  // namespace kolo
