#pragma once

#include <string>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

// Comparisons of results in tests of kernels.
namespace kolo {

// So many threads for LibTorch, while it lives.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_;
};

// Relative to the largest value: sums of up to some thousand products in float32, beside what a
// rounding of the result to its type changes.
inline void expect_close(const torch::Tensor& value, const torch::Tensor& reference,
                         const std::string& what, double tolerance = 2e-5) {
  ASSERT_EQ(value.defined(), reference.defined()) << what;
  if (!value.defined()) return;
  ASSERT_EQ(value.sizes(), reference.sizes()) << what;
  if (value.numel() == 0) return;
  const double scale = 1e-3 + reference.abs().max().item<double>();
  if (value.scalar_type() == torch::kBFloat16) tolerance = 4e-3;
  EXPECT_LT((value.to(torch::kDouble) - reference).abs().max().item<double>(), tolerance * scale)
      << what;
}

}  // namespace kolo
