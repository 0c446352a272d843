#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/enum_names.h"

namespace kolo {

// Schedules of a pipeline as lists of each rank's actions. A network is cut into stages, one for
// each rank, a batch into micro-batches. All are pure functions, so that ranks which agree on the
// numbers agree on the lists.
enum class PipelineSchedule {
  gpipe,        // all forward passes, then all backward passes. Huang et al., arXiv:1811.06965
  one_f_one_b,  // a forward and a backward pass by turns, so that few micro-batches are kept.
                // Narayanan et al., arXiv:1806.03377, with the flush of arXiv:2006.09503
};

constexpr auto enum_names(PipelineSchedule) {
  return std::to_array<EnumName<PipelineSchedule>>(
      {{PipelineSchedule::gpipe, "gpipe"}, {PipelineSchedule::one_f_one_b, "1f1b"}});
}

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int ranks = 1;
  int micro_batches = 1;  // may be fewer than ranks
};

enum class PipelineWork {
  forward,
  backward,
  send,     // the result of the computation before: an activation or a gradient
  receive,  // posts the receive of what a later pass needs; that pass waits for it
};

constexpr auto enum_names(PipelineWork) {
  return std::to_array<EnumName<PipelineWork>>({{PipelineWork::forward, "forward"},
                                                {PipelineWork::backward, "backward"},
                                                {PipelineWork::send, "send"},
                                                {PipelineWork::receive, "receive"}});
}

enum class PipelinePayload {
  activation,  // from a stage to the next
  gradient,    // of the activation: from a stage to the one before
};

constexpr auto enum_names(PipelinePayload) {
  return std::to_array<EnumName<PipelinePayload>>(
      {{PipelinePayload::activation, "activation"}, {PipelinePayload::gradient, "gradient"}});
}

struct PipelineAction {
  PipelineWork work = PipelineWork::forward;
  int micro_batch = 0;
  PipelinePayload payload = PipelinePayload::activation;  // of messages

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// The rank at the other end of a message in a rank's list.
[[nodiscard]] int peer_of(const PipelineAction& message, int rank);

// Tag of a message, which no other message of a step between the two ranks has.
[[nodiscard]] constexpr int tag_of(PipelinePayload payload, int micro_batch) {
  return 2 * micro_batch + (payload == PipelinePayload::gradient ? 1 : 0);
}

// Actions of a rank. Backward passes are in the order of the micro-batches, so that sums of
// gradients are those of accumulation on one rank, to the bit.
//
// A send follows the computation of its tensor, and a receive is posted one computation before the
// one that needs it: so the lists end even if sends wait for their receives to be posted.
//
// InputError for numbers below 1, and for more micro-batches than tags of an int; Error for a rank
// outside the shape.
[[nodiscard]] std::vector<PipelineAction> pipeline_actions(const PipelineShape& shape, int rank);

// Computation of a pipeline, which timelines name "forward stage 2 micro-batch 3".
struct PipelinePass {
  PipelineWork work = PipelineWork::forward;
  int stage = 0;
  int micro_batch = 0;

  friend bool operator==(const PipelinePass&, const PipelinePass&) = default;
};
[[nodiscard]] std::string name_of(const PipelinePass& pass);
// Pass of this name; none for other names.
[[nodiscard]] std::optional<PipelinePass> pipeline_pass_named(std::string_view name);

// Share of the ranks' time spent waiting, with equal stages and no time for messages: (p - 1) /
// (m + p - 1).
[[nodiscard]] double ideal_idle_fraction(const PipelineShape& shape);

}  // namespace kolo
