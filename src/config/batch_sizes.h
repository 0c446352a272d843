#pragma once

#include "settings/value.h"

namespace kolo {

// Leaves one of training's batch_size, local_batch_size and global_batch_size in the tree: one from
// the command line takes the place of the file's. InputError when the file, or the command line,
// has several.
void settle_batch_sizes(ConfigValue& root);

}  // namespace kolo
