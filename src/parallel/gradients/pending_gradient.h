#pragma once

#include <cstdint>

#include <torch/types.h>

namespace kolo {

// A parameter's gradient while its average is under way, and can't be added to. grad() is a
// placeholder then: infinity and 1, in a shape that fits no parameter, so that nobody steps with
// it. It tells what was done to it in the meantime, by its values: LibTorch clips gradients past
// their version counters. What later backward passes of the step bring is kept apart, to be
// averaged by itself.
class PendingGradient {
 public:
  explicit PendingGradient(torch::Tensor parameter);

  // grad() is set aside, with the placeholder in its place.
  void begin();
  // A later pass is about to add to grad(), which is what such passes have brought so far until
  // look() is called.
  void open();
  [[nodiscard]] bool is_open() const { return is_open_; }
  // What has happened to grad() meanwhile, which is the placeholder again afterwards. False: it was
  // changed in a way that can't be followed: clipped, scaled, exchanged.
  [[nodiscard]] bool look();

  // By zero_grad() of whatever kind, since begin(): the gradient is not wanted any more.
  [[nodiscard]] bool is_discarded() const { return is_discarded_; }
  // The sum of the later passes' gradients; undefined: there were none.
  [[nodiscard]] const torch::Tensor& later() const { return later_; }

  // The average is there: grad() is what was set aside, unless nothing was.
  void end();
  // Whatever happens, nobody is left with a placeholder: the same where grad() still is one. And
  // nothing is kept of the step.
  void reset();

 private:
  // What was done to it by others than later passes.
  enum class Fate : std::uint8_t { untouched, zeroed, changed };

  [[nodiscard]] Fate fate(const torch::Tensor& gradient) const;
  [[nodiscard]] bool is_placeholder(const torch::Tensor& gradient) const;
  [[nodiscard]] bool is_as_new() const;
  [[nodiscard]] const torch::Tensor& renewed();

  torch::Tensor parameter_;
  torch::Tensor placeholder_;
  torch::Tensor original_;  // of the placeholder
  torch::Tensor aside_;     // grad() at begin()
  torch::Tensor later_;
  bool is_open_ = false;  // grad() is later_
  bool is_discarded_ = false;
};

}  // namespace kolo
