#include "kolo/layout/pipeline_schedule.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

using Actions = std::vector<PipelineAction>;

void require_shape(const PipelineShape& shape) {
  if (shape.ranks < 1 || shape.micro_batches < 1 || shape.chunks < 1) {
    throw InputError(fmt::format(
        "pipeline: {} ranks, {} micro-batches and {} chunks per rank, expected 1 or more of each",
        shape.ranks, shape.micro_batches, shape.chunks));
  }
  if (shape.chunks > 1 && shape.schedule != PipelineSchedule::interleaved) {
    throw InputError(fmt::format("pipeline: schedule {} has 1 chunk per rank, not {}; use {}",
                                 name_of(shape.schedule), shape.chunks,
                                 name_of(PipelineSchedule::interleaved)));
  }
  const auto tags = checked_multiply(checked_multiply<std::int64_t>(shape.ranks, shape.chunks),
                                     checked_multiply<std::int64_t>(2, shape.micro_batches));
  if (tags > std::numeric_limits<int>::max()) {
    throw InputError(
        fmt::format("pipeline: {} micro-batches in {} x {} stages are more than can be numbered",
                    shape.micro_batches, shape.ranks, shape.chunks));
  }
}

void require_rank(const PipelineShape& shape, int rank) {
  if (rank >= 0 && rank < shape.ranks) return;
  throw Error(fmt::format("pipeline: rank {} of a pipeline of {} ranks", rank, shape.ranks));
}

// Micro-batches that an interleaved schedule is made for: they go through a chunk in groups of as
// many as there are ranks.
std::int64_t padded_micro_batches(const PipelineShape& shape) {
  if (shape.schedule != PipelineSchedule::interleaved) return shape.micro_batches;
  const std::int64_t ranks = shape.ranks;
  return (shape.micro_batches + ranks - 1) / ranks * ranks;
}

// Forward passes before those that take turns with backward passes.
std::int64_t warm_up(const PipelineShape& shape, int rank) {
  const std::int64_t ranks = shape.ranks, after = ranks - rank - 1;
  switch (shape.schedule) {
    case PipelineSchedule::gpipe:
      return shape.micro_batches;
    case PipelineSchedule::interleaved:
      // Megatron-LM's: the first group through all chunks but the last, and what the ranks after
      // this one need until the first gradient is back.
      return std::min(padded_micro_batches(shape) * shape.chunks,
                      2 * after + (shape.chunks - 1) * ranks);
    case PipelineSchedule::one_f_one_b:
    case PipelineSchedule::zb_h1:
      break;
  }
  return std::min<std::int64_t>(shape.micro_batches, after);
}

// The pass number `place` of a rank: group by group, and in a group chunk by chunk, upwards in
// forward and downwards in backward.
PipelineAction pass(const PipelineShape& shape, PipelineWork work, std::int64_t place) {
  const std::int64_t group = shape.schedule == PipelineSchedule::interleaved
                                 ? shape.ranks
                                 : std::int64_t{shape.micro_batches};
  const auto in_groups = group * shape.chunks;
  const auto chunk = static_cast<int>(place % in_groups / group);
  return {.work = work,
          .micro_batch = static_cast<int>(place / in_groups * group + place % group),
          .chunk = work == PipelineWork::forward ? chunk : shape.chunks - 1 - chunk};
}

// Puts sends and receives among the computations, by playing them in ticks.
class MessagePlacer {
 public:
  explicit MessagePlacer(const PipelineShape& shape)
      : shape_(shape),
        next_(static_cast<std::size_t>(shape.ranks), 0),
        free_at_(static_cast<std::size_t>(shape.ranks), 0),
        lists_(static_cast<std::size_t>(shape.ranks)) {
    const auto passes =
        static_cast<std::size_t>(shape.stages()) * static_cast<std::size_t>(shape.micro_batches);
    forward_end_.assign(passes, never);
    backward_end_.assign(passes, never);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      computations_.push_back(pipeline_computations(shape, rank));
      left_ += computations_.back().size();
    }
  }

  // Ends, because the computations of the ranks never wait for one another in a circle: each
  // schedule is a known one, and leaving out a micro-batch keeps the others' order.
  std::vector<Actions> place() {
    for (std::int64_t tick = 0; left_ > 0; ++tick) {
      std::vector<int> starting;
      for (int rank = 0; rank < shape_.ranks; ++rank) {
        if (starts(rank, tick)) starting.push_back(rank);
      }
      // All receives of a tick come before all sends of it: this order of all actions is one in
      // which they can be carried out, whatever waits for what.
      for (const auto rank : starting) post_receive(rank);
      for (const auto rank : starting) compute(rank, tick);
    }
    return std::move(lists_);
  }

 private:
  static constexpr auto never = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] int stage_of(int rank, const PipelineAction& action) const {
    return action.chunk * shape_.ranks + rank;
  }
  [[nodiscard]] std::size_t place_of(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(shape_.micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }
  [[nodiscard]] const PipelineAction& next_of(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return computations_[index][next_[index]];
  }

  [[nodiscard]] bool starts(int rank, std::int64_t tick) const {
    const auto index = static_cast<std::size_t>(rank);
    if (free_at_[index] > tick || next_[index] == computations_[index].size()) return false;
    const auto& action = next_of(rank);
    const auto stage = stage_of(rank, action);
    switch (action.work) {
      case PipelineWork::forward:
        return stage == 0 || forward_end_[place_of(stage - 1, action.micro_batch)] <= tick;
      case PipelineWork::backward:
        return forward_end_[place_of(stage, action.micro_batch)] <= tick &&
               (stage + 1 == shape_.stages() ||
                backward_end_[place_of(stage + 1, action.micro_batch)] <= tick);
      default:
        return true;  // gradients of weights follow the backward pass of the same list
    }
  }

  // The message that a computation's result travels in, as its sender has it; none where it stays
  // on the rank or goes nowhere.
  [[nodiscard]] std::optional<PipelineAction> message_of(int rank,
                                                         const PipelineAction& action) const {
    if (action.work == PipelineWork::weight_gradient) return std::nullopt;
    const bool is_forward = action.work == PipelineWork::forward;
    const auto stage = stage_of(rank, action), target = is_forward ? stage + 1 : stage - 1;
    if (target < 0 || target == shape_.stages()) return std::nullopt;
    const auto peer = shape_.rank_of(target);
    if (peer == rank) return std::nullopt;
    const auto payload = is_forward ? PipelinePayload::activation : PipelinePayload::gradient;
    return PipelineAction{.work = PipelineWork::send,
                          .micro_batch = action.micro_batch,
                          .chunk = action.chunk,
                          .payload = payload,
                          .peer = peer,
                          .tag = pipeline_tag(shape_, payload, action.micro_batch, stage)};
  }

  void post_receive(int rank) {
    const auto& action = next_of(rank);
    auto message = message_of(rank, action);
    if (!message) return;
    auto& list = lists_[static_cast<std::size_t>(message->peer)];
    const auto stage = stage_of(rank, action);
    const auto target = message->payload == PipelinePayload::activation ? stage + 1 : stage - 1;
    message->work = PipelineWork::receive;
    message->chunk = target / shape_.ranks;
    message->peer = rank;
    list.push_back(*message);
  }

  void compute(int rank, std::int64_t tick) {
    const auto index = static_cast<std::size_t>(rank);
    const auto& action = next_of(rank);
    const auto place = place_of(stage_of(rank, action), action.micro_batch);
    const bool is_long = action.work == PipelineWork::backward && !shape_.has_weight_gradients();
    free_at_[index] = tick + (is_long ? 2 : 1);
    if (action.work == PipelineWork::forward) forward_end_[place] = free_at_[index];
    if (action.work == PipelineWork::backward) backward_end_[place] = free_at_[index];
    lists_[index].push_back(action);
    if (const auto message = message_of(rank, action)) lists_[index].push_back(*message);
    ++next_[index];
    --left_;
  }

  PipelineShape shape_;
  std::vector<Actions> computations_;
  std::vector<std::size_t> next_;
  std::vector<std::int64_t> free_at_;  // the tick in which a rank can compute again
  std::vector<std::int64_t> forward_end_, backward_end_;
  std::size_t left_ = 0;  // computations of all ranks
  std::vector<Actions> lists_;
};

}  // namespace

int pipeline_tag(const PipelineShape& shape, PipelinePayload payload, int micro_batch,
                 int sending_stage) {
  return (micro_batch * shape.stages() + sending_stage) * 2 +
         (payload == PipelinePayload::gradient ? 1 : 0);
}

Actions pipeline_computations(const PipelineShape& shape, int rank) {
  require_shape(shape);
  require_rank(shape, rank);
  const auto passes = padded_micro_batches(shape) * shape.chunks;
  const auto first = warm_up(shape, rank);
  Actions actions;
  const auto add = [&](PipelineWork work, std::int64_t place) {
    const auto action = pass(shape, work, place);
    if (action.micro_batch < shape.micro_batches) actions.push_back(action);
  };
  // Gradients of weights stay behind by as many micro-batches as there are ranks before this one:
  // then the first gradients reach rank 0 early, and all ranks keep as much as it does.
  const auto delay = shape.has_weight_gradients() ? std::int64_t{rank} : passes;
  for (std::int64_t step = 0; step < passes + first; ++step) {
    if (step < passes) add(PipelineWork::forward, step);
    if (step < first) continue;
    add(PipelineWork::backward, step - first);
    if (step - first >= delay) add(PipelineWork::weight_gradient, step - first - delay);
  }
  if (shape.has_weight_gradients()) {
    for (auto place = std::max<std::int64_t>(0, passes - delay); place < passes; ++place) {
      add(PipelineWork::weight_gradient, place);
    }
  }
  return actions;
}

PipelinePlan plan_pipeline(const PipelineShape& shape) {
  require_shape(shape);
  return {shape, MessagePlacer(shape).place()};
}

double ideal_idle_share(const PipelineShape& shape) {
  require_shape(shape);
  const double others = shape.ranks - 1;
  const double units = shape.has_weight_gradients() ? 3 : shape.chunks;
  return others / (units * shape.micro_batches + others);
}

std::int64_t most_micro_batches_kept(const PipelineShape& shape, int rank) {
  require_shape(shape);
  require_rank(shape, rank);
  return std::min(std::int64_t{shape.micro_batches} * shape.chunks, warm_up(shape, rank) + 1);
}

namespace {

// What comes after `beginning`; none where the text begins otherwise.
std::optional<std::string_view> after(std::string_view beginning, std::string_view text) {
  if (!text.starts_with(beginning)) return std::nullopt;
  return text.substr(beginning.size());
}

// Takes a number away from the beginning of the text.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::string name_of(const PipelinePass& pass) {
  return fmt::format("{} stage {} micro-batch {}", name_of(pass.work), pass.stage,
                     pass.micro_batch);
}

std::optional<PipelinePass> pipeline_pass_named(std::string_view name) {
  for (const auto work :
       {PipelineWork::forward, PipelineWork::backward, PipelineWork::weight_gradient}) {
    auto rest = after(fmt::format("{} stage ", name_of(work)), name);
    if (!rest) continue;
    const auto stage = take_number(*rest);
    rest = after(" micro-batch ", *rest);
    if (!stage || !rest) return std::nullopt;
    const auto micro_batch = take_number(*rest);
    if (!micro_batch || !rest->empty()) return std::nullopt;
    return PipelinePass{work, *stage, *micro_batch};
  }
  return std::nullopt;
}

}  // namespace kolo
