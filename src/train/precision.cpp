#include "kolo/train/precision.h"

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// LibTorch's messages go on with a stack trace.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

Precision precision_named(const std::string& name) {
  return named<Precision>("precision", "precision", name);
}

void require_precision(Precision precision) {
  if (precision == Precision::fp32) return;
  try {
    const auto input = torch::ones({1, 1, 4, 4, 4}, torch::requires_grad());
    const auto weight = torch::ones({1, 1, 4, 4, 4}, torch::requires_grad());
    torch::Tensor down, up;
    {
      const AutocastGuard guard(precision);
      down = torch::conv3d(input, weight, {}, 2, 1);
      up = torch::conv_transpose3d(down, weight, {}, 2, 1);
    }
    up.to(torch::kFloat).sum().backward();
    // LibTorch 1.13 leaves transposed convolutions in float32.
    if (down.scalar_type() == torch::kFloat) throw Error("it computes in float32 instead");
  } catch (const std::exception& error) {
    throw InputError(fmt::format(
        "precision: this LibTorch ({}) can't train in {} on the CPU ({}); {}", TORCH_VERSION,
        precision == Precision::bf16 ? "bf16" : "fp16", first_line(error.what()),
        precision == Precision::bf16 ? "use training.precision=fp32"
                                     : "use training.precision=bf16, which has the range of "
                                       "float32 and needs no loss scale"));
  }
}

torch::Tensor forward_in(Precision precision, Network& network, const torch::Tensor& input) {
  if (precision == Precision::fp32) return network.forward(input);
  torch::Tensor outputs;
  {
    const AutocastGuard guard(precision);
    outputs = network.forward(input);
  }
  return outputs.to(torch::kFloat);
}

}  // namespace kolo
