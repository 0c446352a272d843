#include "kolo/nn/loss.h"

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

LossKind loss_named(const std::string& name) {
  if (name == "cross_entropy") return LossKind::cross_entropy;
  throw InputError(fmt::format("loss: unknown loss \"{}\", known is cross_entropy", name));
}

LossFunction make_loss(LossKind kind) {
  switch (kind) {
    case LossKind::cross_entropy:
      return [](const torch::Tensor& outputs, const torch::Tensor& targets) {
        return torch::nn::functional::cross_entropy(outputs, targets);
      };
  }
  throw Error("loss: not a kind of loss");
}

}  // namespace kolo
