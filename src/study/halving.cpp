#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/study/sweep.h"

namespace kolo {

std::vector<SweepRung> plan_rungs(const HalvingOptions& options, int trials, std::int64_t epochs) {
  if (!(options.eta > 1))
    throw InputError(fmt::format("sweep: --eta {}: one trial in so many goes on, so it is above 1",
                                 options.eta));
  if (options.least_epochs < 1 || options.least_epochs > epochs)
    throw InputError(
        fmt::format("sweep: --least-epochs {}: expected from 1 to training.n_epochs, which is {}",
                    options.least_epochs, epochs));
  std::vector<std::int64_t> ends{epochs};
  for (double part = static_cast<double>(epochs) / options.eta;; part /= options.eta) {
    const auto rounded = static_cast<std::int64_t>(std::llround(part));
    if (rounded < options.least_epochs) break;
    if (rounded < ends.back()) ends.push_back(rounded);
  }
  std::ranges::reverse(ends);
  std::vector<SweepRung> rungs;
  double left = trials;
  for (const auto end : ends) {
    const SweepRung rung{end, std::max(1, static_cast<int>(std::floor(left + 1e-9)))};
    // A trial that is alone has nobody to be compared with before the last rung.
    if (rung.trials > 1 || end == epochs) rungs.push_back(rung);
    left = rung.trials / options.eta;
  }
  return rungs;
}

namespace {

// The trials of one rung.
class RungField {
 public:
  RungField(const Sweep& sweep, std::size_t rung) : sweep_(sweep), rung_(rung) {
    for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
      const auto& trial = sweep.trials[i];
      if (is_beyond(trial))
        ++promoted_;
      else if (is_at_end(trial))
        ranking_.push_back(i);
      else if (is_on_the_way(trial))
        ++on_the_way_;
    }
    std::ranges::stable_sort(ranking_, [&](std::size_t one, std::size_t other) {
      return is_better(sweep.metric, value_of(one), value_of(other));
    });
  }

  // `may_come`: how many more may enter the rung, of whom nothing is known yet.
  void decide(int may_come, std::vector<RungDecision>& decisions) const {
    const int places = sweep_.rungs[rung_ + 1].trials;
    int better = promoted_;
    for (const auto place : ranking_) {
      if (better >= places || !std::isfinite(value_of(place)))
        decisions[place] = RungDecision::drop;
      else if (better + on_the_way_ + may_come < places)
        decisions[place] = RungDecision::go_on;
      ++better;
    }
  }

  // How many may still go on to the next rung, besides those that have.
  [[nodiscard]] int may_go_on(int may_come) const {
    const int candidates = static_cast<int>(ranking_.size()) + on_the_way_ + may_come;
    return std::max(0, std::min(sweep_.rungs[rung_ + 1].trials - promoted_, candidates));
  }

 private:
  [[nodiscard]] double value_of(std::size_t place) const {
    return sweep_.trials[place].rung_values[rung_];
  }
  [[nodiscard]] bool is_member(const Trial& trial) const {
    return rung_ == 0 || trial.rung >= static_cast<int>(rung_) || trial.rung_values.size() > rung_;
  }
  [[nodiscard]] bool is_beyond(const Trial& trial) const {
    return trial.rung > static_cast<int>(rung_) || trial.rung_values.size() > rung_ + 1;
  }
  [[nodiscard]] bool is_at_end(const Trial& trial) const {
    return trial.rung_values.size() == rung_ + 1;
  }
  [[nodiscard]] bool is_on_the_way(const Trial& trial) const {
    return is_member(trial) && trial.state != TrialState::failed;
  }

  const Sweep& sweep_;
  std::size_t rung_;
  std::vector<std::size_t> ranking_;  // those at its end, the best first
  int promoted_ = 0, on_the_way_ = 0;
};

}  // namespace

std::vector<RungDecision> decide_rungs(const Sweep& sweep) {
  std::vector<RungDecision> decisions(sweep.trials.size(), RungDecision::wait);
  int may_come = 0;
  for (std::size_t rung = 0; rung + 1 < sweep.rungs.size(); ++rung) {
    const RungField field(sweep, rung);
    field.decide(may_come, decisions);
    may_come = field.may_go_on(may_come);
  }
  return decisions;
}

}  // namespace kolo
