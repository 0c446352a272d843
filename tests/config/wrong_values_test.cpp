// Every setting there is, with every kind of wrong value: each is refused with its name, or taken.
#include "config/config_fixture.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class WrongValues : public testing::ConfigTest {
 protected:
  // What is said of a setting on the command line; empty where it is taken.
  [[nodiscard]] std::string said_of(const std::string& setting, const std::string& value) const {
    try {
      (void)load(required, {setting + "=" + value});
      return {};
    } catch (const InputError& error) {
      return error.what();
    }
  }
};

TEST_F(WrongValues, OfEverySettingAreRefusedByNameOnOneLine) {
  for (const auto& setting : setting_names()) {
    for (const char* value :
         {"two", "-1", "0.5", "12345678901234567890123", "1e400", ".nan", "[1, two]", "{a: 1}",
          "'3'", "~~", "true", "[[1]]", "-9223372036854775809"}) {
      const auto message = said_of(setting, value);
      if (message.empty()) continue;
      EXPECT_THAT(message, StartsWith("command line: ")) << setting << "=" << value;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_LT(message.size(), 500U) << message;
    }
  }
}

// A variable of the shell that is not set would otherwise mean the default, silently.
TEST_F(WrongValues, NothingBehindTheEqualsSignIsNoValue) {
  for (const auto& setting : setting_names()) {
    const bool is_required =
        setting == "data.name" || setting == "model.name" || setting == "optimizer.name";
    const auto advice = is_required ? "leave it out to keep what the file says"
                                    : "write " + setting + "=null for the default";
    for (const char* nothing : {"", "  "})
      EXPECT_EQ(said_of(setting, nothing),
                "command line: expected a value behind " + setting + "=, got nothing; " + advice);
    // The advice helps.
    const auto said = said_of(setting, "null");
    if (is_required)
      EXPECT_THAT(said, StartsWith("command line: " + setting + ": this key is required and"));
    else
      EXPECT_EQ(said, "") << setting;
  }
  EXPECT_FALSE(load(required, {"training.max_steps=null"}).training.max_steps.has_value());
}

TEST_F(WrongValues, MisspeltSettingsGetASuggestion) {
  const struct {
    const char *given, *meant;
  } cases[] = {{"n_epochs:1", "did you mean training.n_epochs=1?"},
               {"training.n_epochs:1", "did you mean training.n_epochs=1?"},
               {"training.n_epochs: 1", "did you mean training.n_epochs=1?"},
               {"n_epochs=1", "did you mean training.n_epochs?"},
               {"lr=.1", "did you mean optimizer.lr?"},
               {"optimizer.learning_rat=.1", "unknown key \"learning_rat\""},
               {"training.epochs=3", "did you mean \"n_epochs\"?"},
               {"batchsize", "did you mean training.batch_size=VALUE?"},
               {"modell.name=cnn", "did you mean \"model\"?"}};
  for (const auto& [given, meant] : cases)
    EXPECT_THAT(error(required, {given}), AllOf(StartsWith("command line: "), HasSubstr(meant)))
        << given;
}

TEST_F(WrongValues, AnOptionIsNamedInsteadOfTheCommandLine) {
  auto from = source(required);
  from.options = {{"--n_epochs", "training.n_epochs=two"}};
  EXPECT_EQ(testing::message_of<InputError>([&] { (void)load_run_config(from); }),
            "--n_epochs: training.n_epochs: expected a whole number greater than 0, got \"two\"");
  from.options = {{"--batch_size", "training.batch_size=32"}};
  EXPECT_EQ(load_run_config(from).training.batch_size, 32);
}

TEST_F(WrongValues, WhatOnlyFactoriesKnowNamesThePlaceToo) {
  const auto config = load(required, {"model.dropout=.1"});
  const auto file = (folder_ / "run.yaml").string();
  EXPECT_EQ(config.places.before("model.name"), file + ":2: model.name: ");
  EXPECT_EQ(config.places.before("model.dropout"), "command line: model.dropout: ");
  EXPECT_EQ(config.places.before("data.n_train"), file + ":1: data.n_train: ");
  EXPECT_THAT(config.places.before("training.n_epochs"), StartsWith(file + ":1: training.n"));
  EXPECT_EQ(RunConfig{}.places.before("data.path"), "data.path: ");
}

}  // namespace
}  // namespace kolo
