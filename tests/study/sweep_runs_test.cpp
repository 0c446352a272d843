// Sweeps with a shell script in the place of kolo.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/study/sweep.h"
#include "support/matchers.h"
#include "support/read_all.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

// Stand-in for kolo train: its accuracy is optimizer.lr in every epoch; `description` chooses how
// it ends.
constexpr auto stand_in = R"(#!/bin/sh
epochs=9
for word in "$@"; do
  [ "$before" = --output ] && output=$word
  case $word in
  description=*) description=${word#*=} ;;
  optimizer.lr=*) lr=${word#*=} ;;
  esac
  before=$word
done
mkdir -p "$output" RUNNING
grep Cpus_allowed_list /proc/self/status > "$output/cpus"
echo "$description $lr $epochs" >> STARTS
: > "RUNNING/$$"
ls RUNNING | wc -l >> COUNTS
trap 'rm "RUNNING/$$"; exit 75' TERM
if [ "$description" = waits ]; then
  : > WAITS
  while :; do sleep .02; done
fi
sleep .05
rm "RUNNING/$$"
if [ "$description" = fails ]; then
  echo "kolo: the loss is infinite" >&2
  echo "something that a launcher says" >&2
  exit 1
fi
records= epoch=1
while [ $epoch -le $epochs ]; do
  records="$records${records:+, }{\"epoch\": $epoch, \"step\": $epoch, \"val_accuracy\": $lr}"
  epoch=$((epoch + 1))
done
echo "{\"n_ranks\": 1, \"epochs\": [$records], \"summary\": {}}" > "$output/history.json"
)";

class SweepRuns : public ::testing::Test {
 protected:
  SweepRuns() {
    std::string text = stand_in;
    for (const std::string name : {"RUNNING", "STARTS", "COUNTS", "WAITS"}) {
      const auto path = (folder_ / name).string();
      for (auto at = text.find(name); at != std::string::npos;
           at = text.find(name, at + path.size()))
        text.replace(at, name.size(), path);
    }
    folder_.write_program("kolo", text);
  }

  [[nodiscard]] SweepRequest request(std::vector<std::string> words) const {
    SweepRequest request{.config = {.file = config_, .name = std::nullopt, .overrides = {}}};
    request.config.overrides = std::move(words);
    request.output = folder_ / "sweep";
    request.program = folder_ / "kolo";
    request.sites = {.ranks = 1, .at_once = 2, .oversubscribe = true};
    return request;
  }

  [[nodiscard]] std::vector<std::string> lines_of(const std::string& name) const {
    return testing::lines_of(read_all(folder_ / name));
  }

  static std::vector<TrialState> states_of(const Sweep& sweep) {
    std::vector<TrialState> states;
    for (const auto& trial : sweep.trials) states.push_back(trial.state);
    return states;
  }

  // Asks this process to end as soon as a trial waits.
  [[nodiscard]] std::jthread asks_to_stop() const {
    return std::jthread([file = folder_ / "WAITS"](const std::stop_token& end) {
      while (!fs::exists(file) && !end.stop_requested())
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (!end.stop_requested()) ::kill(::getpid(), SIGTERM);
    });
  }

  TemporaryFolder folder_;
  std::string config_ =
      folder_.write("digits.yaml",
                    "data: {name: dummy, input_shape: [1, 28, 28], n_train: 16, n_valid: 8}\n"
                    "model: {name: mnist_net}\n"
                    "optimizer: {name: sgd, lr: 0.01}\n"
                    "training: {batch_size: 8, n_epochs: 9}\n");
};

TEST_F(SweepRuns, SideBySideEachOnProcessorsOfItsOwn) {
  std::vector<std::string> said;
  auto wanted = request({"optimizer.lr=0.1,0.2,0.3,0.4,0.5,0.6"});
  wanted.say = [&](const std::string& line) { said.push_back(line); };
  const auto finished = run_sweep(wanted);
  EXPECT_FALSE(finished.was_stopped);
  EXPECT_THAT(states_of(finished.sweep), AllOf(SizeIs(6), Each(TrialState::done)));
  EXPECT_EQ(finished.sweep.trials[best_first(finished.sweep).front()].settings[0],
            "optimizer.lr=0.6");
  EXPECT_EQ(finished.sweep.trials[1].folder, "trials/002-lr-0.2");
  EXPECT_EQ(finished.sweep.trials[1].best, 0.2);
  EXPECT_GT(finished.sweep.trials[1].seconds, 0.04);
  const auto counts = lines_of("COUNTS");
  EXPECT_EQ(counts.size(), 6U);
  EXPECT_LE(*std::ranges::max_element(counts), "2") << "and not more at once";
  EXPECT_THAT(said, SizeIs(7));
  EXPECT_TRUE(says(said.back(), {"6 of 6 over, best trial 6 with 60.00 %"}));
  const auto text = read_text_file(folder_ / "sweep/report.html");
  EXPECT_TRUE(says(text, {"trial 6: learning rate 0.6"}));
  std::set<std::string> cpus;
  for (const auto& trial : finished.sweep.trials)
    cpus.insert(read_text_file(folder_ / "sweep" / trial.folder / "cpus"));
  EXPECT_EQ(cpus.size(), std::min<std::size_t>(2, allowed_cores().size())) << "a core for each";
}

TEST_F(SweepRuns, AFailureHarmsNoneAndIsTriedOnceMore) {
  const auto wanted = request({"description=good,fails,fine", "optimizer.lr=0.1"});
  const auto first = run_sweep(wanted).sweep;
  EXPECT_THAT(states_of(first),
              ElementsAre(TrialState::done, TrialState::failed, TrialState::done));
  EXPECT_EQ(first.trials[1].problem, "status 1: the loss is infinite");
  EXPECT_EQ(lines_of("STARTS").size(), 3U);
  EXPECT_EQ(run_sweep(wanted).sweep.trials[1].failures, 2);
  EXPECT_EQ(lines_of("STARTS").size(), 4U);
  EXPECT_EQ(run_sweep(wanted).sweep.trials[1].failures, 2);
  EXPECT_EQ(lines_of("STARTS").size(), 4U) << "twice is enough";
  EXPECT_EQ(describe_sweep(wanted), "every trial is done\n");
}

TEST_F(SweepRuns, StoppedTheSameCommandGoesOn) {
  const auto wanted = request({"description=good,waits,other,more", "optimizer.lr=0.1"});
  std::size_t left = 0;
  {
    const auto asking = asks_to_stop();
    const auto stopped = run_sweep(wanted);
    EXPECT_TRUE(stopped.was_stopped);
    EXPECT_EQ(stopped.sweep.trials[1].state, TrialState::stopped);
    for (const auto state : states_of(stopped.sweep)) left += state == TrialState::done ? 0 : 1;
  }
  EXPECT_EQ(states_of(Sweep::read(folder_ / "sweep/sweep.json"))[1], TrialState::stopped);
  folder_.write("kolo", "#!/bin/sh\necho \"$@\" >> " + (folder_ / "SECOND").string() + "\n");
  const auto finished = run_sweep(wanted);
  EXPECT_FALSE(finished.was_stopped);
  EXPECT_THAT(states_of(finished.sweep), Each(TrialState::done));
  EXPECT_EQ(lines_of("SECOND").size(), left) << "and none of the others";
}

TEST_F(SweepRuns, WhatATrialHasWrittenMayBeDamaged) {
  const auto sweep = run_sweep(request({"description=good,good2"})).sweep;  // without a rate
  EXPECT_THAT(states_of(sweep), Each(TrialState::failed));
  EXPECT_TRUE(says(sweep.trials[0].problem, {"history.json:1"}));
}

TEST_F(SweepRuns, MoreValuesAreAddedOtherSweepsAreRefused) {
  (void)run_sweep(request({"optimizer.lr=0.2,0.1"}));
  const auto more = run_sweep(request({"optimizer.lr=0.1,0.2,0.3"})).sweep;
  ASSERT_EQ(more.trials.size(), 3U);
  EXPECT_EQ(more.trials[0].settings[0], "optimizer.lr=0.2") << "in the order in which they came";
  EXPECT_EQ(more.trials[2].folder, "trials/003-lr-0.3");
  EXPECT_EQ(lines_of("STARTS").size(), 3U);
  const auto refused = [&](const SweepRequest& other, const auto& what) {
    EXPECT_THAT([&] { (void)run_sweep(other); }, ThrowsMessage<InputError>(what));
  };
  refused(request({"optimizer.lr=0.1,0.3"}),
          AllOf(HasSubstr("trial 1 (learning rate 0.2)"), HasSubstr("not taken away")));
  refused(request({"optimizer.weight_decay=0.1,0.3"}),
          HasSubstr("its keys are optimizer.lr, not optimizer.weight_decay"));
  refused(request({"optimizer.lr=0.1,0.2,0.3", "training.n_epochs=2"}),
          HasSubstr("its settings are nothing, not training.n_epochs=2"));
  auto drawn = request({"optimizer.lr=0.1,0.2,0.3"});
  drawn.random = 2;
  refused(drawn, HasSubstr("its trials are a grid"));
  folder_.write("digits.yaml", read_text_file(config_) + "description: other\n");
  refused(request({"optimizer.lr=0.1,0.2,0.3"}), HasSubstr("configuration has changed"));
}

TEST_F(SweepRuns, WhatIsWrongWithATrialIsFoundBeforeTheFirst) {
  const auto refused = [&](const SweepRequest& wrong, const auto& what) {
    EXPECT_THAT([&] { (void)run_sweep(wrong); }, ThrowsMessage<InputError>(what));
    EXPECT_FALSE(fs::exists(folder_ / "sweep"));
  };
  refused(request({"optimizer.lr=0.1,high"}),
          AllOf(HasSubstr("trial 2 (learning rate high)"), HasSubstr("optimizer.lr")));
  refused(request({"model.name=mnist_net,unet3d"}), HasSubstr("trial 2 (model unet3d)"));
  auto metric = request({"optimizer.lr=0.1,0.2"});
  metric.metric = "accuracy";
  refused(metric, HasSubstr("val_accuracy, val_loss"));
}

}  // namespace
}  // namespace kolo::testing
