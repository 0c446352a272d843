#include "support/pipeline_play.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kolo/base/error.h"

namespace kolo {

namespace {

using Moments = std::vector<std::optional<double>>;  // none: not yet

class Player {
 public:
  Player(const PipelinePlan& plan, const PipelineTimes& times)
      : plan_(plan), times_(times), clocks_(plan.actions.size(), 0), kept_(plan.actions.size(), 0) {
    const auto passes = plan.actions.size() * static_cast<std::size_t>(plan.shape.micro_batches);
    for (auto* moments : {&ends_, &posted_, &arrivals_})
      for (auto& of_kind : *moments) of_kind.resize(passes);
    play_.ranks.resize(plan.actions.size());
  }

  PipelinePlay play() {
    std::vector<std::size_t> next(clocks_.size(), 0);
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        const auto& list = plan_.actions[rank];
        for (; next[rank] < list.size() && carry_out(static_cast<int>(rank), list[next[rank]]);
             ++next[rank])
          goes_on = true;
      }
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank)
      if (next[rank] < plan_.actions[rank].size()) throw Error("pipeline: the schedule can't end");
    play_.makespan = *std::ranges::max_element(clocks_);
    return std::move(play_);
  }

 private:
  // Index of activations and forward passes, or of gradients and backward passes.
  static std::size_t kind(PipelinePayload payload) {
    return payload == PipelinePayload::activation ? 0 : 1;
  }
  [[nodiscard]] std::size_t index_of(int rank, int micro_batch) const {
    return static_cast<std::size_t>(rank) * static_cast<std::size_t>(plan_.shape.micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }

  // Returns false where the rank must wait.
  bool carry_out(int rank, const PipelineAction& action) {
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    const auto which = kind(action.payload);
    const auto own = index_of(rank, action.micro_batch);
    if (action.work == PipelineWork::receive) {
      posted_[which][index_of(peer_of(action, rank), action.micro_batch)] = clock;
      return true;
    }
    if (action.work != PipelineWork::send) return compute(rank, action);
    if (!posted_[which][own]) return false;
    clock = std::max(clock, *posted_[which][own]);
    arrivals_[which][own] = clock + times_.transfer;
    return true;
  }

  bool compute(int rank, const PipelineAction& action) {
    const auto index = static_cast<std::size_t>(rank);
    const bool is_forward = action.work == PipelineWork::forward;
    // The ends of the pipeline wait for no neighbour's message.
    const int sender = is_forward ? rank - 1 : rank + 1;
    const bool has_sender = sender >= 0 && sender < plan_.shape.ranks;
    const auto own = index_of(rank, action.micro_batch);
    const auto inputs = has_sender
                            ? arrivals_[is_forward ? 0 : 1][index_of(sender, action.micro_batch)]
                        : is_forward ? std::optional(0.)
                                     : ends_[0][own];
    if (!inputs || (!is_forward && !ends_[0][own])) return false;
    const auto times = times_.stages.empty() ? StageTimes{} : times_.stages[index];
    const double begin = std::max(clocks_[index], *inputs);
    clocks_[index] = begin + (is_forward ? times.forward : times.backward);
    ends_[is_forward ? 0 : 1][own] = clocks_[index];
    play_.spans.push_back({rank, action, begin, clocks_[index]});
    auto& [busy, most_kept] = play_.ranks[index];
    busy += clocks_[index] - begin;
    kept_[index] += is_forward ? 1 : -1;
    most_kept = std::max(most_kept, kept_[index]);
    return true;
  }

  const PipelinePlan& plan_;
  const PipelineTimes& times_;
  std::vector<double> clocks_;                // by rank
  std::vector<int> kept_;                     // micro-batches by rank
  std::array<Moments, 2> ends_;               // of passes, by kind; by rank, micro-batch
  std::array<Moments, 2> posted_, arrivals_;  // of messages, by kind; by sending rank, micro-batch
  PipelinePlay play_;
};

}  // namespace

PipelinePlan plan_pipeline(const PipelineShape& shape) {
  PipelinePlan plan{shape, {}};
  for (int rank = 0; rank < shape.ranks; ++rank)
    plan.actions.push_back(pipeline_actions(shape, rank));
  return plan;
}

double PipelinePlay::idle_fraction(int rank) const {
  if (makespan == 0) return 0;
  return 1 - ranks[static_cast<std::size_t>(rank)].busy / makespan;
}

double PipelinePlay::idle_fraction() const {
  double sum = 0;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) sum += idle_fraction(rank);
  return sum / static_cast<double>(ranks.size());
}

PipelinePlay play_pipeline(const PipelinePlan& plan, const PipelineTimes& times) {
  return Player(plan, times).play();
}

}  // namespace kolo
