// Merge keys: what of several mappings counts.
#include "config/config_fixture.h"
#include "support/says.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MergeKeys : public testing::ConfigTest {
 protected:
  // Loads configuration "run", whose templates are the mappings before it.
  [[nodiscard]] RunConfig load_merged(const std::string& templates,
                                      const std::string& training) const {
    return load(templates + "run:\n  <<: *needed\n  training:\n" + training, {}, "run");
  }

  static constexpr const char* needed =
      "needed: &needed\n"
      "  data: {name: fashion_mnist}\n"
      "  model: {name: mnist_net}\n"
      "  optimizer: {name: adam, lr: 0.5}\n";
};

TEST_F(MergeKeys, ExplicitKeysWinWhereverTheMergeStands) {
  const std::string templates = std::string(needed) + "t: &t {batch_size: 7, n_epochs: 8}\n";
  for (const char* training : {"    <<: *t\n    n_epochs: 3\n", "    n_epochs: 3\n    <<: *t\n"}) {
    const RunConfig config = load_merged(templates, training);
    EXPECT_EQ(config.training.batch_size, 7);
    EXPECT_EQ(config.training.n_epochs, 3);
  }
}

TEST_F(MergeKeys, EarlierOfAListWins) {
  const RunConfig config = load_merged(std::string(needed) +
                                           "a: &a {batch_size: 7, n_epochs: 8}\n"
                                           "b: &b {batch_size: 70, log_every: 9}\n",
                                       "    <<: [*a, *b, {log_every: 10, drop_last: true}]\n");
  EXPECT_EQ(config.training.batch_size, 7);
  EXPECT_EQ(config.training.n_epochs, 8);
  EXPECT_EQ(config.training.log_every, 9);
  EXPECT_TRUE(config.training.drop_last);
}

TEST_F(MergeKeys, MergedMappingsMayMergeThemselves) {
  const RunConfig config = load_merged(std::string(needed) +
                                           "a: &a {batch_size: 7, n_epochs: 8}\n"
                                           "b: &b {<<: *a, n_epochs: 9}\n",
                                       "    <<: *b\n");
  EXPECT_EQ(config.training.batch_size, 7);
  EXPECT_EQ(config.training.n_epochs, 9);
}

TEST_F(MergeKeys, NestedMappingsAreMergedAsWell) {
  const RunConfig config = load(
      std::string(needed) + "run:\n  <<: *needed\n  optimizer: {weight_decay: 0.25}\n", {}, "run");
  EXPECT_EQ(config.optimizer.name, "adam");
  EXPECT_EQ(config.optimizer.lr, 0.5);
  EXPECT_EQ(config.optimizer.weight_decay, .25);
}

// Null gives a key its default back.
TEST_F(MergeKeys, AChoiceLeavesBehindWhatTheOneItIsWrittenOverHad) {
  const std::string templates =
      "base: &base\n"
      "  data: {name: fashion_mnist}\n"
      "  model: {name: mnist_net}\n"
      "  optimizer: {name: adam, lr: 0.5, beta1: 0.8}\n"
      "middle: &middle\n"
      "  <<: *base\n"
      "  optimizer: {name: sgd}\n";
  for (const auto* const merged : {"*middle", "*base"}) {
    const auto config =
        load(templates + "run:\n  <<: " + merged + "\n  optimizer: {name: sgd}\n", {}, "run");
    EXPECT_EQ(config.optimizer.name, "sgd");
    EXPECT_EQ(config.optimizer.lr, 0.5);
  }
  EXPECT_EQ(load(templates, {}, "middle").optimizer.name, "sgd");
  EXPECT_TRUE(says(
      error(templates + "run:\n  <<: *base\n  optimizer: {name: sgd, beta1: 0.7}\n", {}, "run"),
      {"run.yaml:10: optimizer.beta1: is of adam"}));
  EXPECT_TRUE(
      says(error(templates + "run:\n  <<: *base\n  optimizer: {momentum: 0.7}\n", {}, "run"),
           {"run.yaml:10: optimizer.momentum: is of "}));
}

TEST_F(MergeKeys, ABatchSizeTakesThePlaceOfAMergedOne) {
  const std::string templates = std::string(needed) + "  training: {batch_size: 7, n_epochs: 8}\n";
  const auto config =
      load(templates + "run:\n  <<: *needed\n  training: {global_batch_size: 70}\n", {}, "run");
  EXPECT_EQ(config.training.global_batch_size, 70);
  EXPECT_EQ(config.training.batch_size, std::nullopt);
  EXPECT_EQ(config.training.n_epochs, 8);
}

TEST_F(MergeKeys, AQuotedKeyIsNoMerge) {
  EXPECT_TRUE(says(error_after_required("training: {\"<<\": {n_epochs: 2}}\n"),
                   {"training: unknown key \"<<\""}));
}

TEST_F(MergeKeys, OnlyMappingsMerge) {
  EXPECT_THAT(error_after_required("training:\n  <<: 3\n"),
              AllOf(StartsWith("run.yaml:5: << merges a mapping"), HasSubstr("not \"3\"")));
  EXPECT_THAT(error_after_required("training:\n  <<: [{n_epochs: 2}, x]\n"),
              StartsWith("run.yaml:5: << merges"));
}

TEST_F(MergeKeys, AnErrorInAMergedKeyNamesTheLineWhereItStands) {
  EXPECT_THAT(error(std::string(needed) +
                        "t: &t\n  batch_size: 0\nrun:\n  <<: *needed\n  training:\n    <<: *t\n",
                    {}, "run"),
              StartsWith("run.yaml:6: training.batch_size: "));
}

}  // namespace
}  // namespace kolo
