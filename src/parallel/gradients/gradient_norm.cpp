#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_noise.h"
#include "kolo/parallel/gradient_norm.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

double norm_together(const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty()) return 0;
  const auto device = tensors.front().device();
  const auto total = torch::zeros({1}, torch::TensorOptions(torch::kDouble).device(device));
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.device() != device) {
      throw Error(fmt::format(
          "parallel: can't clip gradients on {} and {} together; give those of one device",
          device.str(), tensor.device().str()));
    }
    parallel::add_to_norm(tensor, total);
  }
  return std::sqrt(total.item<double>());
}

}  // namespace

double clip_factor(double norm, double maximum_norm) {
  if (!(maximum_norm >= 0)) {
    throw Error(fmt::format("parallel: can't clip gradients to a norm of {}; it must be 0 or more",
                            maximum_norm));
  }
  const double factor = maximum_norm / (norm + 1e-6);
  return std::isfinite(norm) && factor < 1 ? factor : 1;
}

torch::Tensor clip_factor(const torch::Tensor& norm, double maximum_norm) {
  const auto factor = maximum_norm / (norm + 1e-6);
  return torch::where(norm.isfinite().logical_and(factor.lt(1)), factor, torch::ones_like(norm));
}

double clip_gradient_norm(const std::vector<torch::Tensor>& parameters, double maximum_norm) {
  const torch::NoGradGuard no_gradient;
  // A sparse gradient that lists rows more than once has the norm of their sums, but what is scaled
  // are the values that it holds: coalesce() gives a copy then.
  std::vector<torch::Tensor> sums, values;
  std::set<const c10::TensorImpl*> known;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor gradient = parameter.grad();
    if (!gradient.defined() || !known.insert(parameter.unsafeGetTensorImpl()).second) continue;
    (void)gradient.unsqueeze(0);  // throws while the gradient is being averaged
    sums.push_back(gradient.is_sparse() ? gradient.coalesce()._values() : gradient);
    values.push_back(gradient.is_sparse() ? gradient._values() : gradient);
  }
  const double norm = norm_together(sums);
  const double factor = clip_factor(norm, maximum_norm);
  if (factor < 1) {
    for (const torch::Tensor& tensor : values) tensor.mul_(factor);
  }
  return norm;
}

namespace {

// Nothing that is not finite comes into the sums for good.
bool is_finite(const GradientSquares& squares) {
  return std::isfinite(squares.own) && std::isfinite(squares.averaged);
}

// Sum of squares of a bucket, one number; or of each of its gradients.
torch::Tensor squares_of(const GradientBucket& bucket, NoiseMetric metric) {
  const bool is_plain = metric == NoiseMetric::plain;
  const auto count = is_plain ? 1 : static_cast<std::int64_t>(bucket.gradients.size());
  auto squares =
      torch::zeros({count}, torch::TensorOptions(torch::kDouble).device(bucket.flat.device()));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& values = is_plain ? bucket.flat : bucket.gradients[static_cast<std::size_t>(i)];
    parallel::add_to_norm(values.as_strided({values.numel()}, {1}), squares.narrow(0, i, 1));
  }
  return squares;
}

// Weight of each gradient of a bucket: one over the root of the mean square.
torch::Tensor weights_of(const GradientBucket& bucket, const torch::Tensor& squares) {
  std::vector<double> counts;
  for (const auto& gradient : bucket.gradients)
    counts.push_back(static_cast<double>(gradient.numel()));
  const auto roots = (squares / torch::tensor(counts, torch::kDouble).to(squares.device())).sqrt();
  return torch::where(roots > 0, roots.reciprocal(), torch::zeros_like(roots));
}

void add_sum(const torch::Tensor& values, torch::Tensor& total) {
  total = total.defined() ? total + values.sum() : values.sum();
}

}  // namespace

GradientNoise::GradientNoise(double memory) {
  if (!(memory >= 1) || !std::isfinite(memory)) {
    throw Error(fmt::format(
        "parallel: a mean of the gradient noise over {} measurements; it must be 1 or more",
        memory));
  }
  decay_ = std::exp(-1 / memory);
}

void GradientNoise::add(const GradientSquares& squares) {
  const double few = squares.own_samples, all = squares.all_samples;
  if (!(few > 0 && few < all)) {
    throw Error(fmt::format(
        "parallel: the gradient noise of {} samples per rank and {} of all ranks can't be told; "
        "there must be more of all ranks: it takes two ranks",
        few, all));
  }
  if (!is_finite(squares)) return;
  const double gradient = (all * squares.averaged - few * squares.own) / (all - few);
  const double noise = (squares.own - squares.averaged) / (1 / few - 1 / all);
  state_.gradient = decay_ * state_.gradient + gradient;
  state_.noise = decay_ * state_.noise + noise;
  state_.weight = decay_ * state_.weight + 1;
}

std::optional<GradientNoise::Estimate> GradientNoise::estimate() const {
  if (!(state_.weight > 0)) return std::nullopt;
  return Estimate{state_.gradient / state_.weight, state_.noise / state_.weight};
}

double GradientNoise::Estimate::scale() const {
  if (!(gradient > 0)) return std::numeric_limits<double>::infinity();
  return std::max(noise, 0.) / gradient;
}

double GradientNoise::Estimate::gain(double base, double batch) const {
  const double signal = std::max(gradient, 0.), spread = std::max(noise, 0.);
  const double of_base = spread / base + signal, of_batch = spread / batch + signal;
  return of_batch > 0 ? of_base / of_batch : 1;
}

NoiseMeter::NoiseMeter(std::shared_ptr<GradientHook> averaging, NoiseMetric metric)
    : averaging_(std::move(averaging)), metric_(metric) {}

void NoiseMeter::measure_next() {
  measures_ = true;
  own_ = torch::Tensor();
  averaged_ = torch::Tensor();
}

bool NoiseMeter::takes_part() const {
  return measures_ || averaging_;
}

void NoiseMeter::average(const Communicator& communicator, const GradientBucket& bucket) {
  const torch::NoGradGuard no_gradient;
  torch::Tensor own;
  if (measures_) own = squares_of(bucket, metric_);
  if (averaging_) {
    averaging_->average(communicator, bucket);
  } else if (communicator.size() > 1) {
    communicator.all_reduce(buffer_of(bucket.flat), ReduceOp::average,
                            {.name = fmt::format("bucket {}", bucket.index)});
    bytes_ += static_cast<std::int64_t>(bucket.flat.nbytes());
  }
  if (measures_) add(own, squares_of(bucket, metric_), bucket);
}

void NoiseMeter::add(const torch::Tensor& own, const torch::Tensor& averaged,
                     const GradientBucket& bucket) {
  if (metric_ == NoiseMetric::plain) {
    add_sum(own, own_);
    add_sum(averaged, averaged_);
    return;
  }
  const auto weights = weights_of(bucket, averaged);
  add_sum(own * weights, own_);
  add_sum(averaged * weights, averaged_);
}

std::optional<GradientSquares> NoiseMeter::take(const Communicator& communicator, double samples) {
  measures_ = false;
  const auto own = std::exchange(own_, {}), average = std::exchange(averaged_, {});
  if (!own.defined()) return std::nullopt;
  std::array sums{own.item<double>(), samples};
  const double averaged = average.item<double>();
  communicator.all_reduce(std::span<double>(sums), ReduceOp::sum, {.name = "gradient noise"});
  const double ranks = communicator.size();
  return GradientSquares{sums[0] / ranks, averaged, sums[1] / ranks, sums[1]};
}

std::int64_t NoiseMeter::bytes_sent() const {
  return averaging_ ? averaging_->bytes_sent() : bytes_;
}

void NoiseMeter::buckets_changed() {
  if (averaging_) averaging_->buckets_changed();
}

}  // namespace kolo
