#include "kolo/parallel/gradient_hook.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/random.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/kernels.h"

namespace kolo {

namespace {

// Averages by all-reduce, and counts what is sent.
class CountingHook : public GradientHook {
 public:
  [[nodiscard]] std::int64_t bytes_sent() const final { return bytes_; }

 protected:
  void reduce(const Communicator& communicator, const torch::Tensor& tensor,
              CallOptions call = {}) {
    communicator.all_reduce(buffer_of(tensor), ReduceOp::average, std::move(call));
    bytes_ += static_cast<std::int64_t>(tensor.nbytes());
  }

 private:
  std::atomic<std::int64_t> bytes_ = 0;  // read while steps go on
};

class CastingHook final : public CountingHook {
 public:
  explicit CastingHook(torch::ScalarType type) : type_(type) {}

  void average(const Communicator& communicator, const GradientBucket& bucket) override {
    if (communicator.size() == 1) return;
    const torch::NoGradGuard no_gradient;
    if (bucket.flat.element_size() <= 2) {
      reduce(communicator, bucket.flat);
      return;
    }
    if (compressed_.size() <= bucket.index) compressed_.resize(bucket.index + 1);
    torch::Tensor& compressed = compressed_[bucket.index];
    if (!compressed.defined())
      compressed = torch::empty(bucket.flat.sizes(), bucket.flat.options().dtype(type_));
    compressed.copy_(bucket.flat);
    reduce(communicator, compressed);
    bucket.flat.copy_(compressed);
  }

  void buckets_changed() override { compressed_.clear(); }

 private:
  torch::ScalarType type_;
  std::vector<torch::Tensor> compressed_;  // by bucket
};

}  // namespace

std::shared_ptr<GradientHook> float16_compression() {
  return std::make_shared<CastingHook>(torch::kHalf);
}

std::shared_ptr<GradientHook> bfloat16_compression() {
  return std::make_shared<CastingHook>(torch::kBFloat16);
}

namespace {

using parallel::LowRank;

// A gradient is compressed if that makes it smaller by more than this.
constexpr double minimum_compression_rate = 2;

// Location of a compressed gradient and its factors, in elements.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t offset = 0;  // in the bucket
  std::int64_t left = 0;    // in the bucket's left factors
  std::int64_t right = 0;
};

// Data that a bucket keeps from step to step. Tensors are one-dimensional, of float32.
struct BucketState {
  std::int64_t step = 0;
  std::vector<Matrix> matrices;
  std::vector<std::pair<std::int64_t, std::int64_t>> others;  // offset and count in the bucket
  torch::Tensor left, right, rest, error;
};

float* error_of(const BucketState& state, const Matrix& matrix) {
  return state.error.data_ptr<float>() + matrix.offset;
}

// Offset of a view in a bucket, in elements.
std::int64_t offset_in(const torch::Tensor& flat, const torch::Tensor& view) {
  const auto* const begin = static_cast<const std::byte*>(flat.data_ptr());
  return (static_cast<const std::byte*>(view.data_ptr()) - begin) / flat.element_size();
}

class PowerSgd final : public CountingHook {
 public:
  explicit PowerSgd(const PowerSgdOptions& options) : options_(options) {}

  void average(const Communicator& communicator, const GradientBucket& bucket) override {
    if (!bucket.flat.device().is_cpu()) {
      throw Error(fmt::format(
          "parallel: PowerSGD takes gradients in the host's memory, and these are on {}; use "
          "bfloat16_compression() there",
          bucket.flat.device().str()));
    }
    if (communicator.size() == 1) return;
    const torch::NoGradGuard no_gradient;
    if (joins_ != communicator.joins()) {
      // Some ranks have missed steps, so factors and errors are no longer those of one training.
      joins_ = communicator.joins();
      states_.clear();
    }
    auto found = states_.find(bucket.index);
    if (found == states_.end()) found = states_.emplace(bucket.index, plan(bucket)).first;
    BucketState& state = found->second;
    if (state.step >= options_.start_step && !state.matrices.empty()) {
      compress(communicator, bucket, state);
    } else {
      reduce_part(communicator, bucket.flat, bucket, "gradients");
    }
    ++state.step;
  }

  [[nodiscard]] bool carries_over() const override { return true; }
  void buckets_changed() override { states_.clear(); }

 private:
  [[nodiscard]] LowRank factors_of(const torch::Tensor& flat, const BucketState& state,
                                   const Matrix& matrix) const {
    return {flat.data_ptr<float>() + matrix.offset,
            matrix.rows,
            matrix.columns,
            options_.rank,
            state.left.data_ptr<float>() + matrix.left,
            state.right.data_ptr<float>() + matrix.right};
  }

  void compress(const Communicator& communicator, const GradientBucket& bucket,
                BucketState& state) {
    revive_right_factors(bucket, state);
    for (const Matrix& matrix : state.matrices)
      parallel::multiply(factors_of(bucket.flat, state, matrix), error_of(state, matrix));
    reduce_part(communicator, state.left, bucket, "left factors");
    // A number that is not finite on one rank is in everybody's sum now, so all take the same way.
    const std::span left(state.left.data_ptr<float>(),
                         static_cast<std::size_t>(state.left.numel()));
    if (!std::all_of(left.begin(), left.end(), [](float value) { return std::isfinite(value); }))
      return reduce_uncompressed(communicator, bucket, state);
    reduce_others(communicator, bucket, state);
    for (const Matrix& matrix : state.matrices) {
      const auto factors = factors_of(bucket.flat, state, matrix);
      parallel::orthogonalise(factors);
      parallel::multiply_transposed(factors);
    }
    reduce_part(communicator, state.right, bucket, "right factors");
    for (const Matrix& matrix : state.matrices)
      parallel::reconstruct(factors_of(bucket.flat, state, matrix), error_of(state, matrix));
  }

  void reduce_part(const Communicator& communicator, const torch::Tensor& tensor,
                   const GradientBucket& bucket, const char* what) {
    if (tensor.numel() == 0) return;
    reduce(communicator, tensor, {.name = fmt::format("bucket {}, {}", bucket.index, what)});
  }

  // Averages the uncompressed gradients in one all-reduce. (Plain loops: LibTorch's operations
  // would use all cores, which belong to backward.)
  void reduce_others(const Communicator& communicator, const GradientBucket& bucket,
                     BucketState& state) {
    float* const flat = bucket.flat.data_ptr<float>();
    float* packed = state.rest.data_ptr<float>();
    for (const auto& [offset, count] : state.others)
      packed = std::copy_n(flat + offset, count, packed);
    reduce_part(communicator, state.rest, bucket, "uncompressed");
    const float* averaged = state.rest.data_ptr<float>();
    for (const auto& [offset, count] : state.others) {
      std::copy_n(averaged, count, flat + offset);
      averaged += count;
    }
  }

  // Averages a step that can't be compressed, after taking the added error out again.
  void reduce_uncompressed(const Communicator& communicator, const GradientBucket& bucket,
                           const BucketState& state) {
    for (const Matrix& matrix : state.matrices) {
      float* const gradient = bucket.flat.data_ptr<float>() + matrix.offset;
      const float* const error = error_of(state, matrix);
      for (std::int64_t i = 0; i < matrix.rows * matrix.columns; ++i) gradient[i] -= error[i];
    }
    reduce_part(communicator, bucket.flat, bucket, "gradients");
  }

  [[nodiscard]] BucketState plan(const GradientBucket& bucket) const {
    BucketState state;
    const bool is_compressible = bucket.flat.scalar_type() == torch::kFloat;
    std::int64_t left = 0, right = 0, rest = 0;
    for (const torch::Tensor& gradient : bucket.gradients) {
      Matrix matrix;
      matrix.offset = offset_in(bucket.flat, gradient);
      matrix.rows = gradient.dim() >= 2 ? gradient.size(0) : 1;
      matrix.columns = gradient.numel() / std::max<std::int64_t>(matrix.rows, 1);
      const double sent =
          static_cast<double>(matrix.rows + matrix.columns) * static_cast<double>(options_.rank);
      const bool is_gain = sent * minimum_compression_rate < static_cast<double>(gradient.numel());
      if (!is_gain || !is_compressible) {
        state.others.emplace_back(matrix.offset, gradient.numel());
        rest += gradient.numel();
        continue;
      }
      matrix.left = left;
      matrix.right = right;
      left += matrix.rows * options_.rank;
      right += matrix.columns * options_.rank;
      state.matrices.push_back(matrix);
    }
    if (state.matrices.empty()) return state;
    const auto options = bucket.flat.options();
    state.left = torch::zeros({left}, options);
    state.right = torch::zeros({right}, options);
    state.rest = torch::zeros({rest}, options);
    state.error = torch::zeros({bucket.flat.numel()}, options);
    return state;
  }

  // Fills factors that are zero, which nothing would bring back to life, with standard normal
  // numbers that depend on step and position alone.
  void revive_right_factors(const GradientBucket& bucket, BucketState& state) const {
    const auto seed = derive_seed(0, static_cast<std::uint32_t>(bucket.index),
                                  static_cast<std::uint64_t>(state.step));
    for (std::size_t index = 0; index < state.matrices.size(); ++index) {
      const Matrix& matrix = state.matrices[index];
      float* const right = state.right.data_ptr<float>() + matrix.right;
      for (std::int64_t k = 0; k < options_.rank; ++k) {
        float* const begin = right + k * matrix.columns;
        float* const end = begin + matrix.columns;
        if (std::any_of(begin, end, [](float value) { return value != 0; })) continue;
        CounterRandom random(seed, static_cast<std::uint32_t>(index),
                             static_cast<std::uint64_t>(k));
        std::generate(begin, end, [&] { return static_cast<float>(random.normal()); });
      }
    }
  }

  PowerSgdOptions options_;
  std::map<std::size_t, BucketState> states_;  // by bucket
  std::uint64_t joins_ = 0;                    // of the communicator, when they were made
};

}  // namespace

std::shared_ptr<GradientHook> power_sgd(const PowerSgdOptions& options) {
  if (options.rank < 1 || options.start_step < 0) {
    throw InputError(
        fmt::format("parallel: PowerSGD of rank {}, from step {}; expected a rank of 1 or more, "
                    "and a step of 0 or more",
                    options.rank, options.start_step));
  }
  return std::make_shared<PowerSgd>(options);
}

}  // namespace kolo
