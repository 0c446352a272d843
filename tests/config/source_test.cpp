// Named configurations, overrides and merge keys: what of several mappings counts.
#include "config/config_fixture.h"

#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

class NamedConfigurations : public testing::ConfigTest {
 protected:
  static constexpr const char* several =
      "small: &small\n"
      "  data: {name: fashion_mnist}\n"
      "  model: {name: mnist_net}\n"
      "  optimizer: {name: sgd}\n"
      "  training: {n_epochs: 2}\n"
      "large:\n"
      "  <<: *small\n"
      "  training: {n_epochs: 200}\n"
      "  seed: 5\n";
};

TEST_F(NamedConfigurations, TheNameChooses) {
  EXPECT_EQ(load(several, {}, "small").training.n_epochs, 2);
  EXPECT_EQ(load(several, {}, "large").training.n_epochs, 200);
  EXPECT_EQ(load(several, {}, "large").data.name, "fashion_mnist");
  EXPECT_EQ(load(several, {"training.n_epochs=3"}, "large").training.n_epochs, 3);
}

TEST_F(NamedConfigurations, WithoutANameTheyAreListed) {
  EXPECT_EQ(error(several),
            "run.yaml: the file holds several configurations; choose one with --config NAME: "
            "small, large");
}

TEST_F(NamedConfigurations, TemplatesAreNotListed) {
  const std::string text = std::string("rate: &rate 0.1\nfast: &fast {name: adam, lr: *rate}\n") +
                           "model_a: &a\n  optimizer: *fast\n"
                           "model_b: {<<: *a, seed: 2}\n";
  EXPECT_THAT(error(text), EndsWith("choose one with --config NAME: model_a, model_b"));
}

TEST_F(NamedConfigurations, UnknownNamesListTheKnown) {
  EXPECT_EQ(error(several, {}, "larg"),
            "run.yaml: no configuration of the name \"larg\"; did you mean \"large\"? The file "
            "has: small, large");
  EXPECT_EQ(error(several, {}, "zebra"),
            "run.yaml: no configuration of the name \"zebra\". The file has: small, large");
  EXPECT_THAT(error(required, {}, "small"), EndsWith("leave --config out"));
  EXPECT_THAT(error(required, {}, "data"), EndsWith("leave --config out"));
}

TEST_F(NamedConfigurations, SectionsBesideThemCanServeAsTemplates) {
  const std::string text =
      "data: &data {name: fashion_mnist, workers: 3}\n"
      "small: {data: *data, model: {name: cnn}, optimizer: {name: sgd}}\n";
  EXPECT_EQ(load(text, {}, "small").data.workers, 3);
}

TEST_F(NamedConfigurations, TheOutputFolderIsNamedAfterFileAndConfiguration) {
  EXPECT_EQ(load(required).output_dir, "results/run");
  EXPECT_EQ(load(several, {}, "small").output_dir, "results/run-small");
  EXPECT_EQ(load(several, {"output_dir=here"}, "small").output_dir, "here");
}

TEST_F(NamedConfigurations, MissingKeysNameTheLineOfTheConfiguration) {
  EXPECT_THAT(error("a: {}\nb:\n  seed: 1\n", {}, "b"), StartsWith("run.yaml:2: data.name: "));
}

class OverridesTest : public testing::ConfigTest {};

TEST_F(OverridesTest, ReplaceAndAddValuesOfEveryKind) {
  const RunConfig config =
      load(required, {"training.batch_size=32", "seed=9", "model.input_shape=[1, 28, 28]",
                      "model.dropout=.5", "description=two = 1 + 1", "checkpoint.asynchronous=no",
                      "data={name: dummy, n_train: 3, input_shape: [2]}"});
  EXPECT_EQ(config.training.batch_size, 32);
  EXPECT_EQ(config.seed, 9U);
  EXPECT_THAT(config.model.input_shape, ElementsAre(1, 28, 28));
  EXPECT_EQ(value_of(config, "model.dropout"), "0.5");
  EXPECT_EQ(config.description, "two = 1 + 1");
  EXPECT_FALSE(config.checkpoint.asynchronous);
  EXPECT_EQ(config.data.name, "dummy");
}

TEST_F(OverridesTest, LaterOnesWin) {
  EXPECT_EQ(load(required, {"seed=1", "seed=2", "seed=3"}).seed, 3U);
  EXPECT_EQ(load(required, {"training.n_epochs=5", "training={batch_size: 2}"}).training.n_epochs,
            1);
}

TEST_F(OverridesTest, OtherKeysOfTheSectionStay) {
  const RunConfig config = load(std::string(required) + "training: {batch_size: 5, n_epochs: 6}\n",
                                {"training.n_epochs=7"});
  EXPECT_EQ(config.training.batch_size, 5);
  EXPECT_EQ(config.training.n_epochs, 7);
}

TEST_F(OverridesTest, AnAliasChangesInOnePlaceOnly) {
  const RunConfig config = load(
      "data: {name: dummy, n_train: 5, input_shape: &shape [1, 2]}\n"
      "model: {name: cnn, input_shape: *shape}\n"
      "optimizer: {name: sgd}\n",
      {"data.input_shape=[3]"});
  EXPECT_EQ(value_of(config, "data.input_shape"), "[3]");
  EXPECT_THAT(config.model.input_shape, ElementsAre(1, 2));
}

TEST_F(OverridesTest, ErrorsNameTheCommandLine) {
  EXPECT_EQ(
      error(required, {"training.batch_size=abc"}),
      "command line: training.batch_size: expected a whole number greater than 0, got \"abc\"");
  EXPECT_THAT(
      error(required, {"training.bach_size=1"}),
      StartsWith(
          "command line: training: unknown key \"bach_size\"; did you mean \"batch_size\"?"));
  EXPECT_THAT(error(required, {"sed=1"}),
              StartsWith("command line: unknown key \"sed\"; did you mean \"seed\"?"));
  EXPECT_THAT(error(required, {"trainin.n_epochs=1"}),
              StartsWith("command line: unknown key \"trainin\""));
  EXPECT_THAT(error(required, {"training.batch_size.x=1"}),
              EndsWith("greater than 0, got a mapping"));
  EXPECT_THAT(error(required, {"seed.x.y=1"}),
              StartsWith("command line: seed: expected a whole number"));
}

TEST_F(OverridesTest, AMistakeInTheFileIsNotMendedByAnotherKey) {
  EXPECT_THAT(error_after_required("training: {bach_size: 3}\n", {"training.batch_size=3"}),
              StartsWith("run.yaml:4: training: unknown key"));
}

TEST_F(OverridesTest, MalformedOnesAreShown) {
  for (const char* text : {"seed", "=3", ".seed=3", "training.=3", "training..n_epochs=3", ""}) {
    EXPECT_THAT(error(required, {text}),
                StartsWith("command line: expected key=value, for example training.batch_size=32, "
                           "got \"" +
                           std::string(text) + "\""));
  }
  EXPECT_THAT(error(required, {"model.input_shape=[1, 2"}),
              AllOf(StartsWith("command line: "), HasSubstr("\"[1, 2\" is not valid YAML: ")));
  EXPECT_TRUE(says(error(required, {"seed=,3"}), {"\",3\" is not valid YAML: "}));
  EXPECT_THAT(error(required, {"model={name: a, name: b}"}),
              StartsWith("command line: key \"name\" is given twice in one mapping"));
}

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

TEST_F(MergeKeys, ExplicitKeysWinWhereverTheMergeStandsAndThenTheEarlierOfAList) {
  const std::string a = std::string(needed) + "a: &a {batch_size: 7, n_epochs: 8}\n";
  const std::string b = a + "b: &b {batch_size: 70, log_every: 9}\n";
  const std::string c = a + "c: &c {<<: *a, n_epochs: 9}\n";  // merges itself
  const struct {
    std::string templates, training;
    int n_epochs;
    std::optional<std::int64_t> log_every = {};
  } cases[] = {{a, "    <<: *a\n    n_epochs: 3\n", 3},
               {a, "    n_epochs: 3\n    <<: *a\n", 3},
               {b, "    <<: [*a, *b, {log_every: 10, drop_last: true}]\n", 8, 9},
               {c, "    <<: *c\n", 9}};
  for (const auto& [templates, training, n_epochs, log_every] : cases) {
    const RunConfig config = load_merged(templates, training);
    EXPECT_EQ(config.training.batch_size, 7) << training;
    EXPECT_EQ(config.training.n_epochs, n_epochs) << training;
    EXPECT_EQ(config.training.log_every, log_every) << training;
    EXPECT_EQ(config.training.drop_last, log_every.has_value()) << training;
  }
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
