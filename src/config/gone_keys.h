#pragma once

#include "settings/value.h"

namespace kolo {

// InputError for a key that kolo has no longer, with what to do instead. The record of a run of an
// earlier version may have such keys: there they are taken out, but for the command line's.
void refuse_gone_keys(ConfigValue& root, bool is_record);

}  // namespace kolo
