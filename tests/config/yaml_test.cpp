// What is YAML's business: syntax, repeated keys, aliases, merge keys.
#include <fmt/format.h>

#include "config/config_fixture.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::StartsWith;

class YamlFile : public testing::ConfigTest {
 protected:
  // The message for reading a path that no text was written to.
  [[nodiscard]] static std::string error_for_path(const std::filesystem::path& path) {
    return message_of<InputError>([&] { (void)load_run_config({path, {}, {}}); });
  }
};

TEST_F(YamlFile, MissingFileAndFolderAreNamed) {
  EXPECT_THAT(error_for_path(folder_ / "none.yaml"),
              AllOf(HasSubstr("configuration"), HasSubstr("none.yaml: No such file")));
  EXPECT_THAT(error_for_path(folder_.path()), HasSubstr("a folder"));
}

TEST_F(YamlFile, EmptyFileHoldsNoConfiguration) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n"}) {
    EXPECT_EQ(error(text), "run.yaml: the file holds no configuration") << text;
  }
}

TEST_F(YamlFile, TopLevelMustBeAMapping) {
  EXPECT_EQ(error("\n- a\n- b\n"), "run.yaml:2: expected a mapping of keys to values, got a list");
  EXPECT_EQ(error("hello"), "run.yaml:1: expected a mapping of keys to values, got \"hello\"");
}

TEST_F(YamlFile, MalformedYamlNamesLineAndColumn) {
  EXPECT_THAT(error_after_required("training: {n_epochs: 1\nseed: 3\n"),
              StartsWith("run.yaml:5:5: not valid YAML: "));
  EXPECT_THAT(
      error_after_required("training:\n\tn_epochs: 1\n"),
      AllOf(StartsWith("run.yaml:5:"), HasSubstr("not valid YAML: "), HasSubstr("with a tab")));
  EXPECT_THAT(error_after_required("training: *nowhere\n"),
              AllOf(StartsWith("run.yaml:4:11: not valid YAML: "), HasSubstr("anchor")));
  EXPECT_THAT(error("# run\n,seed: 1\n"), StartsWith("run.yaml:2:1: not valid YAML: "));
  EXPECT_THAT(error(std::string(20000, '[')), HasSubstr("not valid YAML"));
}

TEST_F(YamlFile, SecondDocumentIsRefused) {
  EXPECT_THAT(error_after_required("---\nseed: 2\n"),
              StartsWith("run.yaml:4: expected one YAML document, got a second one"));
}

TEST_F(YamlFile, RepeatedKeyNamesBothLines) {
  EXPECT_EQ(error_after_required("training:\n  n_epochs: 1\n  batch_size: 2\n  n_epochs: 3\n"),
            "run.yaml:7: key \"n_epochs\" is given twice in one mapping (first at run.yaml:5)");
  EXPECT_THAT(error_after_required("seed: 1\nseed: 1\n"), StartsWith("run.yaml:5: key \"seed\""));
  EXPECT_THAT(
      error_after_required("a: &a {x: 1}\nb: {<<: *a, <<: *a}\n"),
      AllOf(StartsWith("run.yaml:5: key \"<<\" is given twice"), HasSubstr("<<: [*a, *b]")));
}

TEST_F(YamlFile, KeysMustBeWordsAndTagsMeanNothing) {
  EXPECT_EQ(error_after_required("? [a, b]\n: 1\n"),
            "run.yaml:4: a key must be a word, not a list");
  EXPECT_EQ(error_after_required("~: 1\n"), "run.yaml:4: a key must be a word, not nothing");
  EXPECT_EQ(error_after_required("seed: !integer 3\n"),
            "run.yaml:4: the tag \"!integer\" has no meaning here; leave it out");
  EXPECT_EQ(load(std::string(required) + "description: !!str 12\nseed: !!int 3\n").seed, 3U);
}

TEST_F(YamlFile, AliasesThatGrowWithoutBoundAreRefused) {
  EXPECT_THAT(error_after_required("training: &t\n  again: *t\n"),
              HasSubstr("does an alias (*) contain itself?"));
  EXPECT_THAT(error_after_required("training: &t\n  <<: *t\n"), HasSubstr("contain itself?"));
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int level = 1; level < 12; ++level) {
    bomb += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}]\n", level, level - 1);
  }
  EXPECT_THAT(error_after_required(bomb), HasSubstr("more than 20000 values"));
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

TEST_F(MergeKeys, NestedMappingsAreReplacedWhole) {
  const RunConfig config =
      load(std::string(needed) + "run:\n  <<: *needed\n  optimizer: {name: sgd}\n", {}, "run");
  EXPECT_EQ(config.optimizer.name, "sgd");
  EXPECT_EQ(config.optimizer.lr, 0.01);
}

TEST_F(MergeKeys, AQuotedKeyIsNoMerge) {
  EXPECT_THAT(error_after_required("training: {\"<<\": {n_epochs: 2}}\n"),
              HasSubstr("training: unknown key \"<<\""));
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
