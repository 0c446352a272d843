// Reading of YAML: syntax, repeated keys, aliases.
#include "settings/yaml/yaml.h"

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using testing::message_of;

class YamlFile : public ::testing::Test {
 protected:
  // On lines 1 to 3.
  static constexpr const char* first_lines =
      "data: {name: fashion_mnist}\n"
      "model: {name: mnist_net}\n"
      "optimizer: {name: sgd}\n";

  [[nodiscard]] ConfigValue read(const std::string& text) const {
    return read_yaml_file(folder_.write("run.yaml", text));
  }
  // The message, without the folder.
  [[nodiscard]] std::string error(const std::string& text) const {
    auto message = message_of<InputError>([&] { (void)read(text); });
    const std::string prefix = folder_.path().string() + "/";
    for (auto at = message.find(prefix); at != std::string::npos; at = message.find(prefix))
      message.erase(at, prefix.size());
    return message;
  }
  // For lines that begin on line 4.
  [[nodiscard]] std::string error_after_first(const std::string& lines) const {
    return error(first_lines + lines);
  }
  // The message for reading a path that no text was written to.
  [[nodiscard]] static std::string error_for_path(const std::filesystem::path& path) {
    return message_of<InputError>([&] { (void)read_yaml_file(path); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(YamlFile, MissingFileAndFolderAreNamed) {
  EXPECT_TRUE(
      says(error_for_path(folder_ / "none.yaml"), {"configuration", "none.yaml does not exist"}));
  EXPECT_TRUE(says(error_for_path(folder_.path()), {"a folder"}));
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
  EXPECT_THAT(error_after_first("training: {n_epochs: 1\nseed: 3\n"),
              StartsWith("run.yaml:5:5: not valid YAML: "));
  EXPECT_THAT(
      error_after_first("training:\n\tn_epochs: 1\n"),
      AllOf(StartsWith("run.yaml:5:"), HasSubstr("not valid YAML: "), HasSubstr("with a tab")));
  EXPECT_THAT(error_after_first("training: *nowhere\n"),
              AllOf(StartsWith("run.yaml:4:11: not valid YAML: "), HasSubstr("anchor")));
  EXPECT_THAT(error("# run\n,seed: 1\n"), StartsWith("run.yaml:2:1: not valid YAML: "));
  EXPECT_TRUE(says(error(std::string(20000, '[')), {"not valid YAML"}));
}

TEST_F(YamlFile, SecondDocumentIsRefused) {
  EXPECT_THAT(error_after_first("---\nseed: 2\n"),
              StartsWith("run.yaml:4: expected one YAML document, got a second one"));
}

TEST_F(YamlFile, RepeatedKeyNamesBothLines) {
  EXPECT_EQ(error_after_first("training:\n  n_epochs: 1\n  batch_size: 2\n  n_epochs: 3\n"),
            "run.yaml:7: key \"n_epochs\" is given twice in one mapping (first at run.yaml:5)");
  EXPECT_THAT(error_after_first("seed: 1\nseed: 1\n"), StartsWith("run.yaml:5: key \"seed\""));
  EXPECT_THAT(
      error_after_first("a: &a {x: 1}\nb: {<<: *a, <<: *a}\n"),
      AllOf(StartsWith("run.yaml:5: key \"<<\" is given twice"), HasSubstr("<<: [*a, *b]")));
}

TEST_F(YamlFile, KeysMustBeWordsAndTagsMeanNothing) {
  EXPECT_EQ(error_after_first("? [a, b]\n: 1\n"), "run.yaml:4: a key must be a word, not a list");
  EXPECT_EQ(error_after_first("~: 1\n"), "run.yaml:4: a key must be a word, not nothing");
  EXPECT_EQ(error_after_first("seed: !integer 3\n"),
            "run.yaml:4: the tag \"!integer\" has no meaning here; leave it out");
  const auto root = read("description: !!str 12\nseed: !!int 3\n");
  EXPECT_TRUE(root.find("description")->is_quoted);
  EXPECT_EQ(root.find("seed")->text, "3");
  EXPECT_FALSE(root.find("seed")->is_quoted);
}

TEST_F(YamlFile, AliasesThatGrowWithoutBoundAreRefused) {
  EXPECT_TRUE(says(error_after_first("training: &t\n  again: *t\n"),
                   {"does an alias (*) contain itself?"}));
  EXPECT_TRUE(says(error_after_first("training: &t\n  <<: *t\n"), {"contain itself?"}));
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int level = 1; level < 12; ++level) {
    bomb += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}]\n", level, level - 1);
  }
  EXPECT_TRUE(says(error_after_first(bomb), {"more than 20000 values"}));
}

}  // namespace
}  // namespace kolo
