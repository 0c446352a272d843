#include "kolo/parallel/compression_hooks.h"

#include <atomic>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

class CastingHook final : public GradientHook {
 public:
  CastingHook(torch::ScalarType type, double predivide_factor)
      : type_(type), factor_(predivide_factor) {
    if (predivide_factor > 0 && std::isfinite(predivide_factor)) return;
    throw Error(fmt::format("parallel: predivide_factor is {}; it must be greater than 0",
                            predivide_factor));
  }

  void average(const Communicator& communicator, const GradientBucket& bucket) override {
    if (communicator.size() == 1) return;
    const torch::NoGradGuard no_gradient;
    if (bucket.flat.element_size() <= 2) {
      reduce(communicator, bucket.flat);
      return;
    }
    if (compressed_.size() <= bucket.index) compressed_.resize(bucket.index + 1);
    torch::Tensor& compressed = compressed_[bucket.index];
    if (!compressed.defined()) compressed = torch::empty(bucket.flat.sizes(), type_);
    if (factor_ != 1) bucket.flat.div_(factor_);
    compressed.copy_(bucket.flat);
    reduce(communicator, compressed);
    bucket.flat.copy_(compressed);
    if (factor_ != 1) bucket.flat.mul_(factor_);
  }

  [[nodiscard]] std::int64_t bytes_sent() const override { return bytes_; }

  void buckets_changed() override { compressed_.clear(); }

 private:
  void reduce(const Communicator& communicator, const torch::Tensor& flat) {
    communicator.all_reduce(buffer_of(flat), ReduceOp::average);
    bytes_ += static_cast<std::int64_t>(flat.nbytes());
  }

  torch::ScalarType type_;
  double factor_;
  std::vector<torch::Tensor> compressed_;  // by bucket
  std::atomic<std::int64_t> bytes_ = 0;    // read while steps go on
};

}  // namespace

std::shared_ptr<GradientHook> float16_compression(double predivide_factor) {
  return std::make_shared<CastingHook>(torch::kHalf, predivide_factor);
}

std::shared_ptr<GradientHook> bfloat16_compression(double predivide_factor) {
  return std::make_shared<CastingHook>(torch::kBFloat16, predivide_factor);
}

}  // namespace kolo
