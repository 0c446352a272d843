#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/enum_names.h"

namespace kolo {

// Schedules of a pipeline as data: what each rank does, in which order. A network is cut into
// stages, a batch into micro-batches; rank r of p has stage r, or of v chunks the stages r, p + r,
// 2 p + r, ... All are pure functions, so that ranks which agree on the numbers agree on the lists.
enum class PipelineSchedule {
  gpipe,        // all forward passes, then all backward passes. Huang et al., arXiv:1811.06965
  one_f_one_b,  // a forward and a backward pass by turns, so that few micro-batches are kept.
                // Narayanan et al., arXiv:1806.03377, with the flush of arXiv:2006.09503
  interleaved,  // the same with several chunks per rank: less idle, more messages. Narayanan et
                // al., arXiv:2104.04473
  zb_h1,        // gradients of weights are computed apart, where a rank would be idle. Qi et al.,
                // arXiv:2401.10241
};

constexpr auto enum_names(PipelineSchedule) {
  return std::to_array<EnumName<PipelineSchedule>>({{PipelineSchedule::gpipe, "gpipe"},
                                                    {PipelineSchedule::one_f_one_b, "1f1b"},
                                                    {PipelineSchedule::interleaved, "interleaved"},
                                                    {PipelineSchedule::zb_h1, "zb-h1"}});
}

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int ranks = 1;
  int micro_batches = 1;  // may be fewer than ranks
  int chunks = 1;         // stages per rank; above 1 with `interleaved` alone

  [[nodiscard]] int stages() const { return ranks * chunks; }
  [[nodiscard]] int rank_of(int stage) const { return stage % ranks; }
  // Whether `backward` leaves out the gradients of weights, which have an action of their own.
  [[nodiscard]] bool has_weight_gradients() const { return schedule == PipelineSchedule::zb_h1; }
};

enum class PipelineWork {
  forward,
  backward,
  weight_gradient,
  send,     // the last result of the chunk: of its forward pass (activation) or backward (gradient)
  receive,  // posts the receive of what the chunk's next pass needs; that pass waits for it
};

constexpr auto enum_names(PipelineWork) {
  return std::to_array<EnumName<PipelineWork>>({{PipelineWork::forward, "forward"},
                                                {PipelineWork::backward, "backward"},
                                                {PipelineWork::weight_gradient, "weight gradient"},
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
  int chunk = 0;  // of the rank whose list this is
  // Of messages:
  PipelinePayload payload = PipelinePayload::activation;
  int peer = 0;
  // Equal at both ends and different from those of all others of the step: from 0 to
  // 2 micro_batches stages - 1.
  int tag = 0;

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

struct PipelinePlan {
  PipelineShape shape;
  std::vector<std::vector<PipelineAction>> actions;  // by rank
};

// The lists of all ranks. Stages on one rank hand over without messages. Each chunk takes backward
// passes (and gradients of weights) in the order of the micro-batches, so that sums of gradients
// are those of accumulation on one rank, to the bit.
//
// A send stands right after what it sends was computed, its receive before the computation during
// which it is sent where all ranks compute equally fast, with backward passes twice as long as
// forward ones. So the lists end even where a send waits for its receive to be posted, and nobody
// does wait in that case.
//
// Interleaved, where the ranks don't divide the micro-batches: the lists of the next multiple
// without the micro-batches that aren't there, which need no more memory, but leave more idle: up
// to a third more time where one micro-batch is left over. Better choose a multiple.
//
// InputError for numbers below 1, several chunks with another schedule, or so many messages that
// tags don't fit an int. Costs O(micro_batches stages).
[[nodiscard]] PipelinePlan plan_pipeline(const PipelineShape& shape);

// The tag of a message, from the stage that sends it.
[[nodiscard]] int pipeline_tag(const PipelineShape& shape, PipelinePayload payload, int micro_batch,
                               int sending_stage);

// What a rank's list contains but messages. The same errors; Error for a rank outside the shape.
[[nodiscard]] std::vector<PipelineAction> pipeline_computations(const PipelineShape& shape,
                                                                int rank);

// A computation of a pipeline as timelines name it: "forward stage 2 micro-batch 3".
struct PipelinePass {
  PipelineWork work = PipelineWork::forward;
  int stage = 0;
  int micro_batch = 0;

  friend bool operator==(const PipelinePass&, const PipelinePass&) = default;
};
[[nodiscard]] std::string name_of(const PipelinePass& pass);
// None for other names.
[[nodiscard]] std::optional<PipelinePass> pipeline_pass_named(std::string_view name);

// The share of the ranks' time in which they wait, with equal stages and no time for messages:
// (p - 1) / (m + p - 1) for gpipe and 1f1b, (p - 1) / (v m + p - 1) for interleaved where p divides
// m, (p - 1) / (3 m + p - 1) for zb-h1 where the three computations take equally long and m >= p.
[[nodiscard]] double ideal_idle_share(const PipelineShape& shape);

// The most micro-batches that a rank keeps the inner results of at once, from the beginning of
// forward to the end of backward, counted once per chunk: m for gpipe, min(m, p - r) for 1f1b and
// zb-h1, at most min(v m, v p + p - 1 - 2 r) for interleaved: as much memory as p + (p - 1) / v
// micro-batches on rank 0. After backward zb-h1 keeps what gradients of weights need, of r + 1
// micro-batches at most.
[[nodiscard]] std::int64_t most_micro_batches_kept(const PipelineShape& shape, int rank);

}  // namespace kolo
