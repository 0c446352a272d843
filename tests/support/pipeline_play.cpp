#include "support/pipeline_play.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

std::string what(const PipelineAction& action, int stage) {
  const bool is_message = action.work == PipelineWork::send || action.work == PipelineWork::receive;
  return fmt::format("{} of micro-batch {} of stage {}",
                     is_message ? name_of(action.payload) : name_of(action.work),
                     action.micro_batch, stage);
}

class Player {
 public:
  Player(const PipelinePlan& plan, const PipelineTimes& times)
      : plan_(plan), shape_(plan.shape), times_(times), clocks_(plan.actions.size(), 0) {
    require_times();
    if (static_cast<int>(plan.actions.size()) != shape_.ranks) {
      throw Error(fmt::format("pipeline: {} lists of actions for {} ranks", plan.actions.size(),
                              shape_.ranks));
    }
    const auto passes =
        static_cast<std::size_t>(shape_.stages()) * static_cast<std::size_t>(shape_.micro_batches);
    for (auto* ends : {&forward_end_, &backward_end_, &weight_gradient_end_}) ends->resize(passes);
    posted_.resize(2 * passes);
    arrival_.resize(2 * passes);
    next_.resize(plan.actions.size());
    kept_.resize(plan.actions.size());
    play_.ranks.resize(plan.actions.size());
  }

  PipelinePlay play() {
    std::size_t left = 0;
    for (const auto& list : plan_.actions) left += list.size();
    while (left > 0) {
      const auto before = left;
      for (int rank = 0; rank < shape_.ranks; ++rank) {
        while (has_next(rank) && advance(rank)) --left;
      }
      if (left == before) refuse_endless();
    }
    for (std::size_t tag = 0; tag < posted_.size(); ++tag) {
      if (!posted_[tag] || arrival_[tag]) continue;
      throw Error(fmt::format("pipeline: a receive with tag {} is posted, but nothing sent", tag));
    }
    play_.makespan = *std::ranges::max_element(clocks_);
    return std::move(play_);
  }

 private:
  using Moment = std::optional<double>;  // none: not yet

  void require_times() const {
    const auto is_time = [](double time) { return std::isfinite(time) && time >= 0; };
    if (!times_.stages.empty() && static_cast<int>(times_.stages.size()) != shape_.stages()) {
      throw InputError(fmt::format("pipeline: times of {} stages, expected {}",
                                   times_.stages.size(), shape_.stages()));
    }
    const bool are_times = std::ranges::all_of(times_.stages, [&](const StageTimes& stage) {
      return is_time(stage.forward) && is_time(stage.backward) && is_time(stage.weight_gradient);
    });
    if (!times_.transfers.empty() && static_cast<int>(times_.transfers.size()) != shape_.stages()) {
      throw InputError(fmt::format("pipeline: times of messages after {} stages, expected {}",
                                   times_.transfers.size(), shape_.stages()));
    }
    if (!are_times || !is_time(times_.transfer) ||
        !std::ranges::all_of(times_.transfers, is_time)) {
      throw InputError("pipeline: a time is negative or not finite");
    }
  }

  [[nodiscard]] bool has_next(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return next_[index] < plan_.actions[index].size();
  }
  [[nodiscard]] const PipelineAction& next_of(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return plan_.actions[index][next_[index]];
  }
  [[nodiscard]] int stage_of(int rank, const PipelineAction& action) const {
    return action.chunk * shape_.ranks + rank;
  }
  [[nodiscard]] std::size_t place_of(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(shape_.micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }

  // Carries out the rank's next action; false where it has to wait.
  bool advance(int rank) {
    const auto& action = next_of(rank);
    if (action.micro_batch < 0 || action.micro_batch >= shape_.micro_batches || action.chunk < 0 ||
        action.chunk >= shape_.chunks) {
      throw Error(
          fmt::format("pipeline: rank {} has micro-batch {} of chunk {}, expected less "
                      "than {} and {}",
                      rank, action.micro_batch, action.chunk, shape_.micro_batches, shape_.chunks));
    }
    const bool is_done = action.work == PipelineWork::send      ? send(rank, action)
                         : action.work == PipelineWork::receive ? receive(rank, action)
                                                                : compute(rank, action);
    if (is_done) ++next_[static_cast<std::size_t>(rank)];
    return is_done;
  }

  // When a result is there that a stage needs of another one.
  [[nodiscard]] Moment result_at(int rank, PipelinePayload payload, int micro_batch,
                                 int from_stage) const {
    if (shape_.rank_of(from_stage) != rank) {
      return arrival_[static_cast<std::size_t>(
          pipeline_tag(shape_, payload, micro_batch, from_stage))];
    }
    const auto& ends = payload == PipelinePayload::activation ? forward_end_ : backward_end_;
    return ends[place_of(from_stage, micro_batch)];
  }

  // When all is there that a computation needs.
  [[nodiscard]] Moment inputs_at(int rank, const PipelineAction& action) const {
    const auto stage = stage_of(rank, action);
    const auto own = place_of(stage, action.micro_batch);
    if (action.work == PipelineWork::weight_gradient) return backward_end_[own];
    if (action.work == PipelineWork::forward) {
      if (stage == 0) return 0;
      return result_at(rank, PipelinePayload::activation, action.micro_batch, stage - 1);
    }
    if (!forward_end_[own] || stage + 1 == shape_.stages()) return forward_end_[own];
    return result_at(rank, PipelinePayload::gradient, action.micro_batch, stage + 1);
  }

  [[nodiscard]] double duration(int stage, PipelineWork work) const {
    const auto times =
        times_.stages.empty() ? StageTimes{} : times_.stages[static_cast<std::size_t>(stage)];
    if (work == PipelineWork::forward) return times.forward;
    if (work == PipelineWork::weight_gradient) return times.weight_gradient;
    return times.backward + (shape_.has_weight_gradients() ? 0 : times.weight_gradient);
  }

  [[nodiscard]] double transfer(PipelinePayload payload, int from_stage) const {
    if (times_.transfers.empty()) return times_.transfer;
    const auto before = payload == PipelinePayload::activation ? from_stage : from_stage - 1;
    return times_.transfers[static_cast<std::size_t>(before)];
  }

  [[nodiscard]] std::vector<Moment>& ends_of(PipelineWork work) {
    if (work == PipelineWork::forward) return forward_end_;
    return work == PipelineWork::backward ? backward_end_ : weight_gradient_end_;
  }

  bool compute(int rank, const PipelineAction& action) {
    const auto stage = stage_of(rank, action);
    auto& end = ends_of(action.work)[place_of(stage, action.micro_batch)];
    if (end) throw Error(fmt::format("pipeline: rank {} has {} twice", rank, what(action, stage)));
    const auto inputs = inputs_at(rank, action);
    if (!inputs) return false;
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    const auto begin = std::max(clock, *inputs);
    clock = begin + duration(stage, action.work);
    end = clock;
    play_.spans.push_back({rank, action, begin, clock});
    play_.ranks[static_cast<std::size_t>(rank)].busy += clock - begin;
    count_kept(rank, action.work);
    return true;
  }

  void count_kept(int rank, PipelineWork work) {
    auto& kept = kept_[static_cast<std::size_t>(rank)];
    auto& result = play_.ranks[static_cast<std::size_t>(rank)];
    if (work == PipelineWork::forward) {
      result.most_kept = std::max(result.most_kept, ++kept.micro_batches);
    } else if (work == PipelineWork::weight_gradient) {
      --kept.weight_gradients;
    } else {
      --kept.micro_batches;
      if (!shape_.has_weight_gradients()) return;
      result.most_weight_gradients_left =
          std::max(result.most_weight_gradients_left, ++kept.weight_gradients);
    }
  }

  // The stage that sends a message, of which `action` is one end. Error where it is no message of
  // this rank's.
  int require_message(int rank, const PipelineAction& action) const {
    const bool is_send = action.work == PipelineWork::send;
    const auto stage = stage_of(rank, action);
    const auto step = action.payload == PipelinePayload::activation ? 1 : -1;
    const auto sender = is_send ? stage : stage - step, receiver = is_send ? stage + step : stage;
    const auto other = is_send ? receiver : sender;
    if (other < 0 || other >= shape_.stages() || action.peer != shape_.rank_of(other) ||
        action.tag != pipeline_tag(shape_, action.payload, action.micro_batch, sender)) {
      throw Error(
          fmt::format("pipeline: rank {} has to {} the {}, which is no message between it "
                      "and rank {} with tag {}",
                      rank, name_of(action.work), what(action, sender), action.peer, action.tag));
    }
    return sender;
  }

  bool receive(int rank, const PipelineAction& action) {
    const auto sender = require_message(rank, action);
    auto& posted = posted_[static_cast<std::size_t>(action.tag)];
    if (posted) {
      throw Error(
          fmt::format("pipeline: rank {} receives the {} twice", rank, what(action, sender)));
    }
    posted = clocks_[static_cast<std::size_t>(rank)];
    return true;
  }

  bool send(int rank, const PipelineAction& action) {
    const auto stage = require_message(rank, action);
    const auto tag = static_cast<std::size_t>(action.tag);
    const auto& results =
        action.payload == PipelinePayload::activation ? forward_end_ : backward_end_;
    if (!results[place_of(stage, action.micro_batch)] || arrival_[tag]) {
      throw Error(fmt::format("pipeline: rank {} sends the {} {}", rank, what(action, stage),
                              arrival_[tag] ? "twice" : "before it has computed it"));
    }
    if (!posted_[tag]) return false;
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    clock = std::max(clock, *posted_[tag]);
    arrival_[tag] = clock + transfer(action.payload, stage);
    return true;
  }

  [[nodiscard]] std::string waiting(int rank) const {
    const auto& action = next_of(rank);
    const auto stage = stage_of(rank, action);
    if (action.work == PipelineWork::send) {
      return fmt::format("rank {} waits until rank {} receives the {}", rank, action.peer,
                         what(action, stage));
    }
    return fmt::format("rank {} waits for what it needs for the {}", rank, what(action, stage));
  }

  [[noreturn]] void refuse_endless() const {
    constexpr std::size_t most = 4;
    std::vector<std::string> ranks;
    for (int rank = 0; rank < shape_.ranks && ranks.size() < most; ++rank) {
      if (has_next(rank)) ranks.push_back(waiting(rank));
    }
    throw Error(fmt::format("pipeline: the schedule can't end: {}", join(ranks, "; ")));
  }

  struct Kept {
    int micro_batches = 0;
    int weight_gradients = 0;
  };

  const PipelinePlan& plan_;
  PipelineShape shape_;
  const PipelineTimes& times_;
  std::vector<double> clocks_;                                            // by rank
  std::vector<std::size_t> next_;                                         // by rank
  std::vector<Kept> kept_;                                                // by rank
  std::vector<Moment> forward_end_, backward_end_, weight_gradient_end_;  // by stage, micro-batch
  std::vector<Moment> posted_, arrival_;                                  // by tag
  PipelinePlay play_;
};

}  // namespace

double PipelinePlay::idle_share(int rank) const {
  if (makespan == 0) return 0;
  return 1 - ranks[static_cast<std::size_t>(rank)].busy / makespan;
}

double PipelinePlay::idle_share() const {
  double sum = 0;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) sum += idle_share(rank);
  return sum / static_cast<double>(ranks.size());
}

PipelinePlay play_pipeline(const PipelinePlan& plan, const PipelineTimes& times) {
  return Player(plan, times).play();
}

}  // namespace kolo
