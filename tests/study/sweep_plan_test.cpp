#include <cmath>
#include <set>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/study/sweep.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

using Trials = std::vector<std::vector<std::string>>;

Trials grid(const std::vector<std::string>& words) {
  return grid_of(parse_sweep_space(words));
}

double value_of_setting(const std::string& setting) {
  return parse_number<double>(key_and_value(setting).second).value();
}

TEST(SweepPlan, AGridHasAllCombinationsTheLastKeyFastest) {
  EXPECT_THAT(grid({"optimizer.lr=0.1,0.01", "training.n_epochs=3", "training.batch_size=8,16"}),
              ElementsAre(ElementsAre("optimizer.lr=0.1", "training.batch_size=8"),
                          ElementsAre("optimizer.lr=0.1", "training.batch_size=16"),
                          ElementsAre("optimizer.lr=0.01", "training.batch_size=8"),
                          ElementsAre("optimizer.lr=0.01", "training.batch_size=16")));
  EXPECT_THAT(parse_sweep_space({"a=1,2", "b=3", "c=../x"}).settings, ElementsAre("b=3", "c=../x"))
      << "a path is no range";
}

TEST(SweepPlan, CommasWithinBracketsAndQuotesAreNotBetweenValues) {
  EXPECT_THAT(
      grid({"model.widths=[1,2],[3,{a: 4, b: 5}]"}),
      ElementsAre(ElementsAre("model.widths=[1,2]"), ElementsAre("model.widths=[3,{a: 4, b: 5}]")));
  const auto space = parse_sweep_space({"a=1,2", "data.input_shape=[1,28,28]", "b='x,y'"});
  EXPECT_THAT(space.settings, ElementsAre("data.input_shape=[1,28,28]", "b='x,y'"));
  EXPECT_EQ(space.keys.size(), 1U);
}

TEST(SweepPlan, KeysMayVaryTogether) {
  EXPECT_THAT(grid({"optimizer.name,optimizer.lr=sgd:0.1,adam:0.001"}),
              ElementsAre(ElementsAre("optimizer.name=sgd", "optimizer.lr=0.1"),
                          ElementsAre("optimizer.name=adam", "optimizer.lr=0.001")));
}

TEST(SweepPlan, WhatIsWrongIsSaid) {
  const auto refused = [](const std::vector<std::string>& words, const auto& what) {
    EXPECT_THAT([&] { (void)grid(words); }, ThrowsMessage<InputError>(what)) << words.front();
  };
  refused({"a=1", "b=2"}, HasSubstr("nothing varies"));
  refused({"a=1,,2"}, HasSubstr("a value is empty"));
  refused({"a=1,2,"}, HasSubstr("a value is empty"));
  refused({"a=1,2,1"}, HasSubstr("\"1\" is there twice"));
  refused({"a=1,2", "a=3,4"}, HasSubstr("a is given twice"));
  refused({"a=1,2", "a=3"}, HasSubstr("swept too"));
  refused({"output_dir=a,b"}, HasSubstr("-o names"));
  refused({"a,b=1:2,3"}, AllOf(HasSubstr("2 keys"), HasSubstr("\"3\" has 1 value")));
  refused({"a=log:1e-4"}, HasSubstr("log:1e-4..1e-1"));
  refused({"a=log:x..1"}, HasSubstr("expected two numbers"));
  refused({"a=log:0..1"}, HasSubstr("no logarithm"));
  refused({"a=3..1"}, HasSubstr("3 is not below 1"));
  refused({"a=1..3"}, AllOf(HasSubstr("a grid has no place for a range"), HasSubstr("--random N")));
}

TEST(SweepPlan, DrawsTheSameFromTheSameSeedAndAddsMore) {
  const auto space =
      parse_sweep_space({"optimizer.lr=log:1e-4..1e-1", "a=1..5", "b=0.5..2", "c=x,y,z"});
  const auto twenty = random_trials(space, 7, 20);
  ASSERT_EQ(twenty.size(), 20U);
  EXPECT_EQ(twenty, random_trials(space, 7, 20));
  EXPECT_NE(twenty, random_trials(space, 8, 20));
  const auto more = random_trials(space, 7, 30);
  EXPECT_EQ(Trials(more.begin(), more.begin() + 20), twenty);
}

TEST(SweepPlan, DrawsWithinTheRanges) {
  const auto space = parse_sweep_space({"lr=log:1e-4..1e-1", "whole=3..9", "real=0.5..2",
                                        "size=log:16..256", "word=x,y", "thin=1.23456..1.234561"});
  std::set<double> wholes;
  for (const auto& trial : random_trials(space, 3, 3000)) {
    const auto value = [&](std::size_t key) { return value_of_setting(trial[key]); };
    EXPECT_TRUE(value(0) >= 1e-4 && value(0) <= 1e-1) << trial[0];
    EXPECT_TRUE(parse_number<int>(key_and_value(trial[1]).second)) << trial[1];
    EXPECT_TRUE(value(1) >= 3 && value(1) <= 9) << trial[1];
    EXPECT_TRUE(value(2) >= 0.5 && value(2) <= 2) << trial[2];
    EXPECT_TRUE(parse_number<int>(key_and_value(trial[3]).second)) << trial[3];
    EXPECT_TRUE(value(3) >= 16 && value(3) <= 256) << trial[3];
    EXPECT_TRUE(value(5) >= 1.23456 && value(5) <= 1.234561) << trial[5];
    wholes.insert(value(1));
  }
  EXPECT_EQ(wholes.size(), 7U) << "both ends among them";
}

// Each decade has a third, with 5000 draws within 5 standard deviations.
TEST(SweepPlan, LogarithmicRangesAreEvenInTheLogarithm) {
  std::array<int, 3> decades{};
  const auto space = parse_sweep_space({"lr=log:1e-4..1e-1", "a=1..1000000"});
  for (const auto& trial : random_trials(space, 11, 5000)) {
    const auto decade = static_cast<int>(std::floor(std::log10(value_of_setting(trial[0])) + 4));
    ++decades.at(static_cast<std::size_t>(std::clamp(decade, 0, 2)));
  }
  for (const int count : decades) EXPECT_NEAR(count, 5000 / 3., 5 * std::sqrt(5000 * 2 / 9.));
}

TEST(SweepPlan, NoTrialIsDrawnTwice) {
  const auto space = parse_sweep_space({"a=1..3", "b=x,y"});
  const auto all = random_trials(space, 1, 6);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 6U);
  EXPECT_THAT([&] { (void)random_trials(space, 1, 7); },
              ThrowsMessage<InputError>(HasSubstr("no more than 6")));
}

MachineFacts machine_of(int cores) {
  MachineFacts machine;
  machine.cpus = machine.cores = cores;
  machine.environment = [](const char*) { return std::nullopt; };
  return machine;
}

std::vector<std::vector<int>> cores_of(int count, int threads) {
  std::vector<std::vector<int>> cores;
  for (int core = 0; core < count; ++core) {
    cores.emplace_back();
    for (int thread = 0; thread < threads; ++thread) cores.back().push_back(core + thread * count);
  }
  return cores;
}

TEST(TrialSites, ShareTheCoresEvenly) {
  const auto sites = trial_sites(machine_of(8), cores_of(8, 2), {.ranks = 3});
  ASSERT_EQ(sites.size(), 2U);
  EXPECT_THAT(sites[0].cpus, ElementsAre(0, 8, 1, 9, 2, 10, 3, 11));
  EXPECT_THAT(sites[1].cpus, ElementsAre(4, 12, 5, 13, 6, 14, 7, 15));
  EXPECT_EQ(sites[1].cores, 4);
  EXPECT_THAT(trial_sites(machine_of(8), cores_of(8, 1), {.ranks = 8})[0].cpus, IsEmpty());
  const auto three = trial_sites(machine_of(8), cores_of(8, 1), {.ranks = 1, .at_once = 3});
  ASSERT_EQ(three.size(), 3U);
  for (const auto& place : three) EXPECT_EQ(place.cpus.size(), 2U);
}

TEST(TrialSites, MoreThanTheMachineHasMustBeWanted) {
  EXPECT_THAT([] { (void)trial_sites(machine_of(2), cores_of(2, 1), {.ranks = 1, .at_once = 3}); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("--trials-at-once 3"), HasSubstr("2 trials of 1 rank at once"))));
  const auto shared =
      trial_sites(machine_of(2), cores_of(2, 1), {.ranks = 1, .at_once = 3, .oversubscribe = true});
  ASSERT_EQ(shared.size(), 3U);
  EXPECT_THAT(shared[0].cpus, IsEmpty());
}

TEST(TrialSites, HaveGpusOfTheirOwn) {
  const auto sites =
      trial_sites(machine_of(8), cores_of(8, 1), {.ranks = 2, .gpus = {"0", "1", "2", "3"}});
  ASSERT_EQ(sites.size(), 2U);
  EXPECT_EQ(sites[0].environment.at(0),
            (std::pair<std::string, std::string>("CUDA_VISIBLE_DEVICES", "0,1")));
  EXPECT_EQ(sites[1].environment.at(0).second, "2,3");
}

TEST(TrialSites, OfAPbsJobHaveHostsOfTheirOwn) {
  auto machine = machine_of(4);
  machine.job_hosts = {{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}, {"e", 2}};
  const auto sites = trial_sites(machine, cores_of(4, 1), {.ranks = 3});
  ASSERT_EQ(sites.size(), 2U);
  EXPECT_THAT(sites[0].arguments, ElementsAre("--hosts", "a:2,b:1"));
  EXPECT_THAT(sites[1].arguments, ElementsAre("--hosts", "c:2,d:1"));
}

TEST(TrialSites, OfASlurmJobLeaveItToSlurm) {
  auto machine = machine_of(4);
  machine.launcher = Launcher::srun;
  machine.environment = [](const char* name) -> std::optional<std::string> {
    const std::map<std::string, std::string> variables{
        {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_NTASKS", "8"}, {"SLURM_MEM_PER_NODE", "8000"}};
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const auto sites = trial_sites(machine, cores_of(4, 1), {.ranks = 2});
  ASSERT_EQ(sites.size(), 4U);
  const std::map environment(sites[3].environment.begin(), sites[3].environment.end());
  EXPECT_EQ(environment.at("SLURM_EXACT"), "1");
  EXPECT_EQ(environment.at("SLURM_JOB_NUM_NODES"), "1");
  EXPECT_EQ(environment.at("SLURM_MEM_PER_NODE"), "4000");
  EXPECT_EQ(sites[3].cores, 2);
  EXPECT_THAT(sites[3].cpus, IsEmpty());
}

}  // namespace
}  // namespace kolo::testing
