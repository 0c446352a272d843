#include "parallel/gradients/step_agreement.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kolo/parallel/object_collectives.h"

namespace kolo {

void StepAgreement::begin(bool with_usage) {
  with_usage_ = with_usage;
  problem_.clear();
  error_.clear();
}

void StepAgreement::set_setup(std::uint64_t fingerprint, std::string description) {
  setup_ = fingerprint;
  description_ = std::move(description);
}

// A maximum tells every rank whether a value is the same everywhere when its complement travels
// with it: where a byte differs, no rank has both the maximum of the byte and of its complement.
void StepAgreement::run(const Communicator& communicator) {
  const std::uint64_t values[] = {setup_, ~setup_};
  constexpr std::size_t head = 1 + sizeof(values);
  message_.resize(head);
  message_[0] = problem_.empty() ? 0 : 1;
  std::memcpy(&message_[1], values, sizeof(values));
  if (with_usage_) message_.insert(message_.end(), used_.begin(), used_.end());
  communicator.all_reduce(std::span(message_), ReduceOp::max, {.name = "step agreement"});
  if (with_usage_) {
    std::copy(message_.begin() + static_cast<std::ptrdiff_t>(head), message_.end(), used_.begin());
  }
  const bool is_trouble = message_[0] != 0;
  const bool is_setup_equal = std::memcmp(&message_[1], values, sizeof(values)) == 0;
  if (!is_trouble && is_setup_equal) return;
  const auto texts = all_gather_bytes(communicator, is_trouble ? problem_ : description_);
  error_ = is_trouble ? "parallel: " : "parallel: the ranks' steps differ: ";
  for (const std::string& text : texts) {
    if (!text.empty()) error_ += (error_.back() == ' ' ? "" : "\n") + text;
  }
}

void StepAgreement::run_alone() {
  if (!problem_.empty()) error_ = "parallel: " + problem_;
}

}  // namespace kolo
