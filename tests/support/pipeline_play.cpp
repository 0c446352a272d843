#include "support/pipeline_play.h"

#include <algorithm>
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
    if (static_cast<int>(plan.actions.size()) != shape_.ranks) {
      throw Error(fmt::format("pipeline: {} lists of actions for {} ranks", plan.actions.size(),
                              shape_.ranks));
    }
    const auto passes =
        static_cast<std::size_t>(shape_.ranks) * static_cast<std::size_t>(shape_.micro_batches);
    for (auto* ends : {&forward_end_, &backward_end_}) ends->resize(passes);
    for (auto* messages : {&activations_, &gradients_}) messages->resize(passes);
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
    for (const auto* messages : {&activations_, &gradients_}) {
      for (const auto& message : *messages) {
        if (message.posted && !message.arrival)
          throw Error("pipeline: a receive is posted, but nothing sent");
      }
    }
    play_.makespan = *std::ranges::max_element(clocks_);
    return std::move(play_);
  }

 private:
  using Moment = std::optional<double>;  // none: not yet
  struct Message {
    Moment posted, arrival;
  };

  [[nodiscard]] bool has_next(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return next_[index] < plan_.actions[index].size();
  }
  [[nodiscard]] const PipelineAction& next_of(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return plan_.actions[index][next_[index]];
  }
  [[nodiscard]] std::size_t place_of(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(shape_.micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }

  // Carries out the rank's next action; false where it has to wait.
  bool advance(int rank) {
    const auto& action = next_of(rank);
    if (action.micro_batch < 0 || action.micro_batch >= shape_.micro_batches) {
      throw Error(fmt::format("pipeline: rank {} has micro-batch {}, expected less than {}", rank,
                              action.micro_batch, shape_.micro_batches));
    }
    const bool is_done = action.work == PipelineWork::send      ? send(rank, action)
                         : action.work == PipelineWork::receive ? receive(rank, action)
                                                                : compute(rank, action);
    if (is_done) ++next_[static_cast<std::size_t>(rank)];
    return is_done;
  }

  // By the kind of what is sent.
  [[nodiscard]] Message& message(PipelinePayload payload, int micro_batch, int sender) {
    auto& messages = payload == PipelinePayload::activation ? activations_ : gradients_;
    return messages[place_of(sender, micro_batch)];
  }

  // When all is there that a computation needs.
  [[nodiscard]] Moment inputs_at(int rank, const PipelineAction& action) {
    if (action.work == PipelineWork::forward) {
      if (rank == 0) return 0;
      return message(PipelinePayload::activation, action.micro_batch, rank - 1).arrival;
    }
    const auto own = forward_end_[place_of(rank, action.micro_batch)];
    if (!own || rank + 1 == shape_.ranks) return own;
    return message(PipelinePayload::gradient, action.micro_batch, rank + 1).arrival;
  }

  [[nodiscard]] double duration(int stage, PipelineWork work) const {
    const auto times =
        times_.stages.empty() ? StageTimes{} : times_.stages[static_cast<std::size_t>(stage)];
    return work == PipelineWork::forward ? times.forward : times.backward;
  }

  [[nodiscard]] std::vector<Moment>& ends_of(PipelineWork work) {
    return work == PipelineWork::forward ? forward_end_ : backward_end_;
  }

  bool compute(int rank, const PipelineAction& action) {
    auto& end = ends_of(action.work)[place_of(rank, action.micro_batch)];
    if (end) throw Error(fmt::format("pipeline: rank {} has {} twice", rank, what(action, rank)));
    const auto inputs = inputs_at(rank, action);
    if (!inputs) return false;
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    const auto begin = std::max(clock, *inputs);
    clock = begin + duration(rank, action.work);
    end = clock;
    play_.spans.push_back({rank, action, begin, clock});
    play_.ranks[static_cast<std::size_t>(rank)].busy += clock - begin;
    count_kept(rank, action.work);
    return true;
  }

  void count_kept(int rank, PipelineWork work) {
    auto& kept = kept_[static_cast<std::size_t>(rank)];
    auto& most = play_.ranks[static_cast<std::size_t>(rank)].most_kept;
    kept += work == PipelineWork::forward ? 1 : -1;
    most = std::max(most, kept);
  }

  // The rank that sends a message, of which `action` is one end. Error where it is no message of
  // this rank's.
  int require_message(int rank, const PipelineAction& action) const {
    const int peer = peer_of(action, rank);
    const int sender = action.work == PipelineWork::send ? rank : peer;
    if (peer >= 0 && peer < shape_.ranks) return sender;
    throw Error(fmt::format("pipeline: rank {} has to {} the {}, for which there is no rank {}",
                            rank, name_of(action.work), what(action, sender), peer));
  }

  bool receive(int rank, const PipelineAction& action) {
    const int sender = require_message(rank, action);
    auto& posted = message(action.payload, action.micro_batch, sender).posted;
    if (posted) {
      throw Error(
          fmt::format("pipeline: rank {} receives the {} twice", rank, what(action, sender)));
    }
    posted = clocks_[static_cast<std::size_t>(rank)];
    return true;
  }

  bool send(int rank, const PipelineAction& action) {
    (void)require_message(rank, action);
    auto& [posted, arrival] = message(action.payload, action.micro_batch, rank);
    const auto& results =
        action.payload == PipelinePayload::activation ? forward_end_ : backward_end_;
    if (!results[place_of(rank, action.micro_batch)] || arrival) {
      throw Error(fmt::format("pipeline: rank {} sends the {} {}", rank, what(action, rank),
                              arrival ? "twice" : "before it has computed it"));
    }
    if (!posted) return false;
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    clock = std::max(clock, *posted);
    arrival = clock + times_.transfer;
    return true;
  }

  [[nodiscard]] std::string waiting(int rank) const {
    const auto& action = next_of(rank);
    if (action.work == PipelineWork::send) {
      return fmt::format("rank {} waits until rank {} receives the {}", rank, peer_of(action, rank),
                         what(action, rank));
    }
    return fmt::format("rank {} waits for what it needs for the {}", rank, what(action, rank));
  }

  [[noreturn]] void refuse_endless() const {
    constexpr std::size_t most = 4;
    std::vector<std::string> ranks;
    for (int rank = 0; rank < shape_.ranks && ranks.size() < most; ++rank) {
      if (has_next(rank)) ranks.push_back(waiting(rank));
    }
    throw Error(fmt::format("pipeline: the schedule can't end: {}", join(ranks, "; ")));
  }

  const PipelinePlan& plan_;
  PipelineShape shape_;
  const PipelineTimes& times_;
  std::vector<double> clocks_;                      // by rank
  std::vector<std::size_t> next_;                   // by rank
  std::vector<int> kept_;                           // micro-batches by rank
  std::vector<Moment> forward_end_, backward_end_;  // by rank, micro-batch
  std::vector<Message> activations_, gradients_;    // by sending rank, micro-batch
  PipelinePlay play_;
};

}  // namespace

PipelinePlan plan_pipeline(const PipelineShape& shape) {
  PipelinePlan plan{shape, {}};
  for (int rank = 0; rank < shape.ranks; ++rank)
    plan.actions.push_back(pipeline_actions(shape, rank));
  return plan;
}

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
