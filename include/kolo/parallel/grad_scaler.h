#pragma once

#include <cstdint>

#include <torch/types.h>

namespace kolo {

// Settings of a loss scale; the defaults are PyTorch's (torch.cuda.amp.GradScaler).
struct LossScaleOptions {
  double initial = 65536;
  double growth = 2;  // after so many good steps one after another
  std::int64_t growth_interval = 2000;
  double backoff = .5;  // after a step whose gradients overflow
};

// A dynamic loss scale (Micikevicius et al., "Mixed precision training", 2018): gradients in fp16
// are lost below 6e-8 and overflow above 65504, so the loss is multiplied by a number that keeps
// them in between, and gradients are divided by it before they are used. It grows until they
// overflow; then the step is left out, and it shrinks.
//
// On several ranks each scales its own loss, gradients are averaged scaled, and all divide by
// the same number, because all decide alike which steps are left out (see FiniteCheck). Powers of
// two leave the digits of gradients as they are.
//
// The scale lies where the losses are, and follows steps there: only reading it waits for a device.
class GradScaler {
 public:
  // InputError for numbers that make no sense: not above 0, a growth below 1, a backoff above 1.
  explicit GradScaler(const LossScaleOptions& options = {},
                      const torch::Device& device = torch::kCPU);

  [[nodiscard]] double scale() const { return state().scale; }
  // The scale as a tensor of one float64.
  [[nodiscard]] const torch::Tensor& scale_tensor() const { return scale_; }
  // Loss to call backward() on.
  [[nodiscard]] torch::Tensor scaled(const torch::Tensor& loss) const;
  // To be called for every step, on all ranks with the same answer, after averaged gradients were
  // divided by the scale: one int32 that is not 0 where the step was left out.
  void update(const torch::Tensor& left_out);

  // For checkpoints: the scale and what leads to its next change.
  struct State {
    double scale = 1;
    std::int64_t good_steps = 0;  // since the last change
  };
  [[nodiscard]] State state() const;
  void restore(const State& state);

 private:
  LossScaleOptions options_;
  torch::Tensor scale_;       // one float64
  torch::Tensor good_steps_;  // one int64
};

}  // namespace kolo
