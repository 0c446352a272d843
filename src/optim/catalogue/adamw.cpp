#include "optim/catalogue/adam_settings.h"

namespace kolo::optimizers {

OptimizerEntry adamw() {
  auto entry = entry_of<Adam>("adamw", "Adam with decoupled weight decay (Loshchilov and Hutter)");
  entry.decouples_decay = true;
  return entry;
}

}  // namespace kolo::optimizers
