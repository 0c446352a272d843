#pragma once

#include <cstdint>
#include <string>

#include <torch/types.h>

namespace kolo {

// A parameter's gradient from backward() to its average. grad() is a placeholder meanwhile: any
// operation of LibTorch on it but zeroing is an Error that says what to do, so nobody clips or
// steps with what this rank alone has computed. It holds infinity and 1 in a shape that fits no
// parameter, for loops that read its memory by themselves, and tells by its values whether
// somebody has written there. What later backward passes of the step bring once the average has
// begun is kept apart, to be averaged by itself.
class PendingGradient {
 public:
  // The placeholder's fate by others than later passes.
  enum class Fate : std::uint8_t {
    untouched,
    zeroed,  // by zero_grad() of whatever kind: the gradient is not wanted any more
    changed,
  };

  PendingGradient(torch::Tensor parameter, std::string name);

  // Sets grad() aside, with the placeholder in its place. Nothing while it is held already.
  void hold();
  [[nodiscard]] bool is_held() const { return is_held_; }
  // Before the average has begun: grad() is what was set aside; undefined if it was zeroed.
  Fate give_back();

  // While it is averaged. open(): a later pass is about to add to grad(), which is what such passes
  // have brought so far until look() is called.
  void open();
  [[nodiscard]] bool is_open() const { return is_open_; }
  // Looks at grad(), and makes it the placeholder again. False: it was changed in a way that can't
  // be followed: scaled, exchanged.
  [[nodiscard]] bool look();
  [[nodiscard]] bool is_discarded() const { return is_discarded_; }  // zeroed while held
  // The sum of the later passes' gradients; undefined: there were none.
  [[nodiscard]] const torch::Tensor& later() const { return later_; }

  // The average is there: grad() is what was set aside, unless nothing was.
  void end();

  // Instead of end() where only this rank's part is averaged: grad() stays the placeholder, whose
  // Error says so, until it is zeroed.
  void keep();
  [[nodiscard]] bool is_kept() const { return is_kept_; }
  // Tells the fate of one that is kept; then grad() is undefined unless it is untouched.
  Fate look_at_kept();
  // A backward() of the next step begins: grad() is undefined. It should have been zeroed before,
  // but a pass through the network may come first whose gradients are zeroed in the end (a GAN's
  // generator trains through its discriminator): is_stale() until that happens.
  void drop_kept();
  [[nodiscard]] bool is_stale() const { return is_stale_; }

  // Ends a step, whatever has happened: grad() is what was set aside where it still is the
  // placeholder, unless it is kept.
  void reset();
  // reset(), and nobody is left with a placeholder.
  void release();

 private:
  class Placeholder;

  [[nodiscard]] Fate fate() const;
  [[nodiscard]] bool is_placeholder(const torch::Tensor& gradient) const;
  [[nodiscard]] bool is_as_new() const;
  void put_placeholder(bool is_partly_averaged);

  torch::Tensor parameter_;
  torch::Tensor original_;     // values of the placeholder
  torch::Tensor values_;       // in the placeholder's memory
  torch::Tensor placeholder_;  // whose implementation is a Placeholder
  torch::Tensor aside_;        // grad() before hold()
  torch::Tensor later_;
  bool is_held_ = false;
  bool is_open_ = false;  // grad() is later_
  bool is_discarded_ = false;
  bool is_kept_ = false;
  bool is_stale_ = false;
};

}  // namespace kolo
