#include "kolo/nn/metrics.h"

namespace kolo {

std::int64_t count_correct(const torch::Tensor& logits, const torch::Tensor& targets) {
  return logits.argmax(1).eq(targets).sum().item<std::int64_t>();
}

}  // namespace kolo
