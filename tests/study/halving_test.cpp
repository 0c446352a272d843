#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/study/sweep.h"

namespace kolo::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Halving, RungsGoUpToAllEpochs) {
  EXPECT_THAT(plan_rungs({.eta = 3, .least_epochs = 1}, 27, 27),
              ElementsAre(SweepRung{1, 27}, SweepRung{3, 9}, SweepRung{9, 3}, SweepRung{27, 1}));
  EXPECT_THAT(plan_rungs({.eta = 3, .least_epochs = 2}, 9, 10),
              ElementsAre(SweepRung{3, 9}, SweepRung{10, 3}));
  EXPECT_THAT(plan_rungs({.eta = 2, .least_epochs = 1}, 16, 8),
              ElementsAre(SweepRung{1, 16}, SweepRung{2, 8}, SweepRung{4, 4}, SweepRung{8, 2}));
  // Where one is left there is nothing to decide any more.
  EXPECT_THAT(plan_rungs({.eta = 3, .least_epochs = 1}, 4, 27),
              ElementsAre(SweepRung{1, 4}, SweepRung{27, 1}));
  EXPECT_THAT(plan_rungs({}, 1, 5), ElementsAre(SweepRung{5, 1}));
  EXPECT_THAT([] { (void)plan_rungs({.eta = 1}, 4, 9); },
              ThrowsMessage<InputError>(HasSubstr("--eta 1")));
  EXPECT_THAT([] { (void)plan_rungs({.eta = 3, .least_epochs = 10}, 4, 9); },
              ThrowsMessage<InputError>(HasSubstr("--least-epochs 10")));
}

// What each trial would have at the end of each rung; not_measured: it fails on its way there.
using Table = std::vector<std::vector<double>>;

Table random_table(std::mt19937& random, std::size_t trials, std::size_t rungs) {
  std::uniform_int_distribution<int> value(0, 9);  // so that some are equal
  std::bernoulli_distribution fails(0.1);
  Table table(trials, std::vector<double>(rungs));
  for (auto& row : table)
    for (double& entry : row) entry = fails(random) ? not_measured : value(random) / 10.;
  return table;
}

// Who trains on each rung, all of one rung before any of the next.
std::vector<std::vector<std::size_t>> by_brute_force(const Sweep& sweep, const Table& table) {
  std::vector<std::size_t> here(table.size());
  std::iota(here.begin(), here.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> all{here};
  for (std::size_t rung = 0; rung + 1 < sweep.rungs.size(); ++rung) {
    std::erase_if(here, [&](std::size_t trial) { return std::isnan(table[trial][rung]); });
    std::ranges::stable_sort(here, [&](std::size_t one, std::size_t other) {
      return sweep.metric == "val_loss" ? table[one][rung] < table[other][rung]
                                        : table[one][rung] > table[other][rung];
    });
    here.resize(std::min(here.size(), static_cast<std::size_t>(sweep.rungs[rung + 1].trials)));
    std::ranges::sort(here);
    all.push_back(here);
  }
  return all;
}

// Trains in any order on so many places; what is certain goes on at once.
class Simulation {
 public:
  Simulation(Sweep& sweep, const Table& table, std::mt19937& random)
      : sweep_(sweep), table_(table), random_(random), reached_(sweep.rungs.size()) {}

  std::vector<std::vector<std::size_t>> run(std::size_t places) {
    while (true) {
      while (running_.size() < places && start_one()) {
      }
      if (running_.empty()) break;
      end_one();
    }
    for (auto& rung : reached_) std::ranges::sort(rung);
    return reached_;
  }

  // Started on a higher rung while others were still on a lower one.
  [[nodiscard]] int early() const { return early_; }

 private:
  bool start_one() {
    const auto decisions = decide_rungs(sweep_);
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < sweep_.trials.size(); ++i) {
      const auto state = sweep_.trials[i].state;
      if (state == TrialState::pending ||
          (state == TrialState::waiting && decisions[i] == RungDecision::go_on))
        ready.push_back(i);
    }
    if (ready.empty()) return false;
    const auto chosen = ready[random_() % ready.size()];
    auto& trial = sweep_.trials[chosen];
    ++trial.rung;
    for (const auto other : running_)
      if (sweep_.trials[other].rung < trial.rung) ++early_;
    trial.state = TrialState::running;
    reached_[static_cast<std::size_t>(trial.rung)].push_back(chosen);
    running_.push_back(chosen);
    return true;
  }

  void end_one() {
    const auto place = random_() % running_.size();
    const auto ended = running_[place];
    running_.erase(running_.begin() + static_cast<long>(place));
    auto& trial = sweep_.trials[ended];
    const auto rung = static_cast<std::size_t>(trial.rung);
    const double value = table_[ended][rung];
    if (std::isnan(value)) {
      trial.state = TrialState::failed;
      return;
    }
    trial.rung_values.push_back(value);
    trial.state = rung + 1 == sweep_.rungs.size() ? TrialState::done : TrialState::waiting;
  }

  Sweep& sweep_;
  const Table& table_;
  std::mt19937& random_;
  std::vector<std::vector<std::size_t>> reached_;
  std::vector<std::size_t> running_;
  int early_ = 0;
};

// Whoever is faster, the same trials go on as if each rung were waited for.
TEST(Halving, TheSameGoOnAsWithoutHaste) {
  std::mt19937 random(20261125);
  int early = 0;
  for (int repetition = 0; repetition < 2000; ++repetition) {
    Sweep sweep;
    sweep.metric = repetition % 2 == 0 ? "val_accuracy" : "val_loss";
    const auto trials = 1 + random() % 30;
    sweep.rungs = plan_rungs({.eta = repetition % 3 == 0 ? 2. : 3.}, static_cast<int>(trials), 27);
    sweep.trials.resize(trials);
    const auto table = random_table(random, trials, sweep.rungs.size());
    const auto expected = by_brute_force(sweep, table);
    Simulation simulation(sweep, table, random);
    EXPECT_EQ(simulation.run(1 + random() % 4), expected) << "repetition " << repetition;
    early += simulation.early();
  }
  EXPECT_GT(early, 100) << "what is certain does not wait";
}

TEST(Halving, NothingIsDecidedBeforeItIsCertain) {
  Sweep sweep;
  sweep.rungs = plan_rungs({.eta = 3}, 6, 9);
  sweep.trials.resize(6);
  const auto reaches = [&](std::size_t trial, double value) {
    sweep.trials[trial].rung = 0;
    sweep.trials[trial].state = TrialState::waiting;
    sweep.trials[trial].rung_values = {value};
  };
  for (std::size_t i = 0; i < 4; ++i) reaches(i, 0.1 * static_cast<double>(i));
  using enum RungDecision;
  // Of six, two go on; two are not there yet. Trials 0 and 1 have two better ones for certain.
  EXPECT_THAT(decide_rungs(sweep), ElementsAre(drop, drop, wait, wait, wait, wait));
  reaches(4, 0.05);
  EXPECT_THAT(decide_rungs(sweep), ElementsAre(drop, drop, wait, go_on, drop, wait));
  sweep.trials[5].state = TrialState::failed;
  EXPECT_THAT(decide_rungs(sweep), ElementsAre(drop, drop, go_on, go_on, drop, wait));
}

}  // namespace
}  // namespace kolo::testing
