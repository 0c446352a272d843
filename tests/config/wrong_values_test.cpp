// Every setting there is, with every kind of wrong value: each is refused with its name, or taken.
#include <algorithm>
#include <map>
#include <set>

#include "config/config_fixture.h"
#include "kolo/nn/loss.h"
#include "settings/choice_reader.h"
#include "support/matchers.h"

namespace kolo {
namespace {

// Chooses what knows the setting.
std::string chooser_of(const std::string& setting) {
  const auto knows = [&](const char* section, const ChoiceEntry& entry) {
    const auto keys = keys_of(entry);
    return std::ranges::any_of(keys, [&](const auto& key) { return setting == section + key; });
  };
  for (const auto& entry : built_in_optimizers())
    if (knows("optimizer.", entry)) return "optimizer.name=" + entry.name;
  for (const auto& entry : built_in_model_entries())
    if (knows("model.", entry))
      return "model={name: " + entry.name + (entry.name == "torchscript" ? ", file: m}" : "}");
  for (const auto& entry : built_in_schedules())
    if (knows("training.", entry)) return "training.lr_decay=" + entry.name;
  for (const auto& entry : built_in_losses())
    if (knows("training.", entry)) return "training.loss=" + entry.name;
  const std::map<std::string, std::string> datasets{
      {"cifar10", "data={name: cifar10}"},
      {"imagenet", "data={name: imagenet, train_dir: a, valid_dir: b}"},
      {"dummy", "data={name: dummy, input_shape: [1], n_train: 1}"},
      {"arrays", "data={name: arrays, train_path: a, valid_path: b}"},
      {"nbody", "data={name: nbody, train_path: a, valid_path: b, n_train: 1, n_valid: 1}"}};
  for (const auto& [name, data] : datasets)
    if (knows("data.", dataset_entry(name))) return data;
  return "seed=1";
}

class WrongValues : public testing::ConfigTest {
 protected:
  // Message about a setting on the command line; empty if it is taken.
  [[nodiscard]] std::string said_of(const std::string& setting, const std::string& value,
                                    const std::string& chooser = "seed=1") const {
    try {
      (void)load(required, {chooser, setting + "=" + value});
      return {};
    } catch (const InputError& error) {
      return error.what();
    }
  }
};

// Settings that take any word, as their value or as part of a path.
const std::set<std::string> texts{"description",     "output_dir",     "data.path",
                                  "data.train_dir",  "data.valid_dir", "data.train_path",
                                  "data.valid_path", "model.file",     "model.init_from"};
// Lists of any words.
const std::set<std::string> lists_of_texts{"model.freeze", "data.inputs", "data.targets"};
const std::set<std::string> switches{"data.horizontal_flip",
                                     "optimizer.amsgrad",
                                     "optimizer.centered",
                                     "data.shuffle",
                                     "data.augment",
                                     "model.sync_batch_norm",
                                     "model.full_scale",
                                     "model.bias",
                                     "optimizer.decoupled_decay",
                                     "optimizer.decay_excludes_vectors",
                                     "optimizer.shared_step",
                                     "optimizer.sharded",
                                     "training.drop_last",
                                     "checkpoint.asynchronous",
                                     "communication.overlap",
                                     "parallel.recompute",
                                     "device.shared",
                                     "device.channels_last",
                                     "device.cudnn_benchmark",
                                     "device.tf32",
                                     "device.deterministic",
                                     "device.augment",
                                     "device.graphs"};
// Real numbers, without a bound above...
const std::set<std::string> unbounded{"data.divisor",
                                      "model.l2",
                                      "optimizer.lr",
                                      "optimizer.weight_decay",
                                      "optimizer.epsilon",
                                      "optimizer.initial_accumulator",
                                      "optimizer.trust_coefficient",
                                      "training.lambda_rho",
                                      "training.lr_final_fraction",
                                      "training.lr_decay_power",
                                      "training.clip_norm"};
// ... and with one.
const std::set<std::string> bounded{"data.height_shift",
                                    "data.width_shift",
                                    "data.zoom",
                                    "data.random_crop",
                                    "model.dropout",
                                    "model.batch_norm_momentum",
                                    "optimizer.momentum",
                                    "optimizer.dampening",
                                    "optimizer.beta1",
                                    "optimizer.beta2",
                                    "optimizer.rho",
                                    "training.lr_warmup_epochs",
                                    "training.lr_warmup_from",
                                    "training.label_smoothing",
                                    "communication.bucket_mb"};

bool is_taken(const std::string& setting, const std::string& value) {
  if (texts.contains(setting)) return !value.starts_with('[') && !value.starts_with('{');
  if (lists_of_texts.contains(setting)) return value == "[1, two]";
  if (value == "true") return switches.contains(setting);
  if (value == "-1") return setting == "parallel.data";  // what is left
  const bool is_large = value == "12345678901234567890123";
  return (is_large || value == "0.5") &&
         (unbounded.contains(setting) || (!is_large && bounded.contains(setting)));
}

TEST_F(WrongValues, OfEverySettingAreRefusedByNameOnOneLine) {
  for (const auto& setting : testing::setting_names()) {
    for (const char* value :
         {"two", "-1", "0.5", "12345678901234567890123", "1e400", ".nan", "[1, two]", "{a: 1}",
          "'3'", "~~", "true", "[[1]]", "-9223372036854775809"}) {
      const auto message = said_of(setting, value, chooser_of(setting));
      EXPECT_EQ(message.empty(), is_taken(setting, value)) << setting << "=" << value;
      if (message.empty()) continue;
      // The wrong item of a list: "data.input_shape[1]: ".
      const auto name = "command line: " + setting;
      EXPECT_THAT(message, AnyOf(StartsWith(name + ": "), StartsWith(name + "["))) << value;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_LT(message.size(), 500U) << message;
    }
  }
}

// A variable of the shell that is not set would otherwise mean the default, silently.
TEST_F(WrongValues, NothingBehindTheEqualsSignIsNoValue) {
  for (const auto& setting : testing::setting_names()) {
    const bool is_required =
        setting == "data.name" || setting == "model.name" || setting == "optimizer.name";
    for (const char* nothing : {"", "  "})
      EXPECT_THAT(said_of(setting, nothing),
                  StartsWith("command line: expected a value after " + setting + "=, got nothing"));
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
  } cases[] = {{"n_epochs:1", "expected key=value"},
               {"n_epochs=1", "did you mean training.n_epochs?"},
               {"lr=.1", "did you mean optimizer.lr?"},
               {"optimizer.learning_rat=.1", "unknown key \"learning_rat\""},
               {"training.epochs=3", "did you mean \"n_epochs\"?"},
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
  const auto said = [](const RunConfig& about, const char* key) {
    return testing::message_of<InputError>([&] { refuse_setting(about, key, "wrong"); });
  };
  EXPECT_EQ(said(config, "model.name"), file + ":2: model.name: wrong");
  EXPECT_EQ(said(config, "model.dropout"), "command line: model.dropout: wrong");
  EXPECT_EQ(said(config, "data.n_train"), file + ":1: data.n_train: wrong");
  EXPECT_EQ(said(config, "training.n_epochs"), file + ":1: training.n_epochs: wrong");
  EXPECT_EQ(said({}, "data.path"), "data.path: wrong");
}

}  // namespace
}  // namespace kolo
