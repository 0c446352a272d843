#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/gradient_hook.h"

// How noisy gradients are, and so how large a batch is of use. After "An empirical model of
// large-batch training" (McCandlish, Kaplan, Amodei et al., arXiv:1812.06162).
//
// With G the true gradient and tr(S) the sum of the variances of one sample's gradient, the squared
// norm of a mean over B samples is |G|^2 + tr(S) / B on average. Ranks know it for two sizes, their
// own batch and that of all ranks, before and after they average: that gives both unknowns
// (appendix A.1). Their ratio, tr(S) / |G|^2, is the gradient noise scale, in samples.
namespace kolo {

// Measurement of one step, where ranks have averaged.
struct GradientSquares {
  double own = 0;          // squared norm of a rank's own gradient, mean over the ranks
  double averaged = 0;     // of their average
  double own_samples = 0;  // that a rank's own gradient is the mean of, mean over the ranks
  double all_samples = 0;
};

// Running means of both unknowns over the steps that were measured: single ones are very noisy. A
// value type; adding up what all ranks measured alike, it is the same on every rank.
class GradientNoise {
 public:
  // `memory`: measurements after which an old one counts 1/e as much; 1 or more, else Error.
  explicit GradientNoise(double memory = 20);

  // One that is not finite is left out. Error where own_samples isn't less than all_samples.
  void add(const GradientSquares& squares);

  struct Estimate {
    double gradient = 0;  // |G|^2; the estimate may come out below 0 where noise is much larger
    double noise = 0;     // tr(S)

    // The gradient noise scale, in samples: of a batch as large, noise and gradient are as strong.
    // A training takes twice as many samples as one of small batches to the same loss then, and
    // twice as many steps as one of huge batches. Infinity where |G|^2 is not above 0.
    [[nodiscard]] double scale() const;
    // By how much more a step with `batch` samples advances than one with `base` (AdaScale:
    // Johnson, Agrawal, Gu and Guestrin, "AdaScale SGD", ICML 2020): from 1, where there is no
    // noise, to batch / base, where there is nothing else.
    [[nodiscard]] double gain(double base, double batch) const;
  };
  // None before the first measurement.
  [[nodiscard]] std::optional<Estimate> estimate() const;

  // Plain numbers, for checkpoints.
  struct State {
    double gradient = 0, noise = 0;  // weighted sums
    double weight = 0;
  };
  [[nodiscard]] const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  double decay_;
  State state_;
};

// Kind of a squared norm of gradients. Steps along P g, with a preconditioner P, have the noise
// scale tr(P S) / G'PG, which is that of the gradient P^(1/2) g.
enum class NoiseMetric {
  plain,      // of steps along the gradient, as SGD's
  by_tensor,  // each parameter's by the root of its average gradient's mean square: of steps whose
              // length doesn't follow the gradient's, as Adam's and LAMB's
};

// Measures squared norms around the averaging of gradients: a hook that leaves this to another one,
// or to an all-reduce. Costs two passes over the gradients in a step that is measured, and nothing
// in others.
//
// Give it to ReducerOptions::hook; on the thread that makes the steps call measure_next() before
// one's backward(), and take() when all of its buckets are averaged.
class NoiseMeter final : public GradientHook {
 public:
  explicit NoiseMeter(std::shared_ptr<GradientHook> averaging = nullptr,
                      NoiseMetric metric = NoiseMetric::plain);

  void measure_next();
  // Returns what was measured since measure_next(), and ends it. `samples`: of this rank in that
  // step. None where nothing was averaged. Waits for a device. Collective.
  [[nodiscard]] std::optional<GradientSquares> take(const Communicator& communicator,
                                                    double samples);

  [[nodiscard]] bool takes_part() const override;
  void average(const Communicator& communicator, const GradientBucket& bucket) override;
  [[nodiscard]] std::int64_t bytes_sent() const override;
  void buckets_changed() override;

 private:
  void add(const torch::Tensor& own, const torch::Tensor& averaged, const GradientBucket& bucket);

  std::shared_ptr<GradientHook> averaging_;  // null: an all-reduce
  NoiseMetric metric_;
  std::int64_t bytes_ = 0;  // that it has sent itself, in steps it measured
  bool measures_ = false;
  torch::Tensor own_, averaged_;  // one float64 each, where the gradients are
};

}  // namespace kolo
