#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/base/network_stage.h"

namespace kolo::parallel {

// What the tensors of a payload look like: what two ranks agree on before they exchange payloads
// without telling each time.
class PayloadShape {
 public:
  PayloadShape() = default;
  explicit PayloadShape(const StagePayload& payload);
  // As words() of another rank has it. Error for anything else.
  [[nodiscard]] static PayloadShape from_words(std::span<const std::int64_t> words);

  [[nodiscard]] std::vector<std::int64_t> words() const;
  [[nodiscard]] std::vector<bool> need_gradients() const;
  // New memory for such tensors, undefined where they are.
  [[nodiscard]] StagePayload allocate(const torch::Device& device) const;
  // "2 tensors: float32 [4, 8, 16, 16] of strides [2048, 1, 128, 8], none"
  [[nodiscard]] std::string describe() const;

  friend bool operator==(const PayloadShape&, const PayloadShape&) = default;

 private:
  struct Shape {
    bool is_defined = false;
    bool needs_gradient = false;
    torch::ScalarType type = torch::kFloat;
    std::vector<std::int64_t> sizes, strides;

    friend bool operator==(const Shape&, const Shape&) = default;
  };

  std::vector<Shape> tensors_;
};

// The same values in memory without gaps: the tensor itself where it has none.
[[nodiscard]] torch::Tensor without_gaps(const torch::Tensor& tensor);
// Memory without gaps as one row.
[[nodiscard]] torch::Tensor as_row(const torch::Tensor& tensor);

}  // namespace kolo::parallel
