#include "optim/catalogue/optimizer_settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

const OptimizerEntry& optimizer_entry(std::string_view name) {
  const auto& entries = built_in_optimizers();
  const auto found = std::ranges::find(entries, name, &OptimizerEntry::name);
  if (found == entries.end()) throw Error(fmt::format("optim: there is no optimizer {}", name));
  return *found;
}

std::string optimizers::Epsilon::remark() const {
  return fmt::format("epsilon {}, added as in {}", value.value(),
                     form == EpsilonForm::torch ? "PyTorch" : "Keras");
}

}  // namespace kolo
