#include "optim/catalogue/adam_settings.h"

namespace kolo::optimizers {

OptimizerEntry adam() {
  return entry_of<Adam>("adam", "Adam (Kingma and Ba, 2015), AMSGrad if so wanted");
}

}  // namespace kolo::optimizers
