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

std::vector<RungDecision> decide_rungs(const Sweep& sweep) {
  std::vector<RungDecision> decisions(sweep.trials.size(), RungDecision::wait);
  int may_come = 0;  // trials that may still enter the rung, of whom nothing is known yet
  for (std::size_t rung = 0; rung + 1 < sweep.rungs.size(); ++rung) {
    const auto number = static_cast<int>(rung);
    std::vector<std::size_t> ranking;  // trials at its end, the best first
    int promoted = 0, on_the_way = 0;
    for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
      const auto& trial = sweep.trials[i];
      if (trial.rung > number || trial.rung_values.size() > rung + 1)
        ++promoted;
      else if (trial.rung_values.size() == rung + 1)
        ranking.push_back(i);
      else if ((rung == 0 || trial.rung == number) && trial.state != TrialState::failed)
        ++on_the_way;
    }
    const auto value_of = [&](std::size_t trial) { return sweep.trials[trial].rung_values[rung]; };
    std::ranges::stable_sort(ranking, [&](std::size_t one, std::size_t other) {
      return is_better(sweep.metric, value_of(one), value_of(other));
    });
    const int places = sweep.rungs[rung + 1].trials;
    int better = promoted;
    for (const auto trial : ranking) {
      if (better >= places || !std::isfinite(value_of(trial)))
        decisions[trial] = RungDecision::drop;
      else if (better + on_the_way + may_come < places)
        decisions[trial] = RungDecision::go_on;
      ++better;
    }
    const int candidates = static_cast<int>(ranking.size()) + on_the_way + may_come;
    may_come = std::max(0, std::min(places - promoted, candidates));
  }
  return decisions;
}

}  // namespace kolo
