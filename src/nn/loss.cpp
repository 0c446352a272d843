#include "kolo/nn/loss.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "nn/losses/loss_entry.h"
#include "nn/tensor_text.h"

namespace kolo {

const LossEntry& loss_entry(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& entry : built_in_losses()) {
    known.push_back(entry.name);
    known.insert(known.end(), entry.aliases.begin(), entry.aliases.end());
    if (std::ranges::find(known, name) != known.end()) return entry;
  }
  const auto near = nearest(name, known);
  throw InputError(fmt::format("loss: unknown loss {}, expected one of {}{}", quote(name),
                               join(known),
                               near.empty() ? "" : fmt::format("; did you mean {}?", quote(near))));
}

LossFunction make_loss(std::string_view name) {
  const auto& entry = loss_entry(name);
  return entry.make(entry.defaults);
}

void losses::require_numbers_of_one_shape(std::string_view loss, const torch::Tensor& outputs,
                                          const torch::Tensor& targets) {
  if (outputs.sizes() == targets.sizes() && targets.is_floating_point()) return;
  throw InputError(
      fmt::format("loss: {} of outputs {} and targets {}, expected numbers of one shape", loss,
                  shape_of(outputs), shape_of(targets)));
}

void losses::require_smoothing(double label_smoothing) {
  if (label_smoothing >= 0 && label_smoothing < 1) return;
  throw InputError(fmt::format("loss: label smoothing is {}, expected a number from 0 to below 1",
                               label_smoothing));
}

}  // namespace kolo
