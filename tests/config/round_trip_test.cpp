// to_yaml() and back.
#include <cmath>
#include <cstdlib>

#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>

#include "config/config_fixture.h"
#include "config/settle.h"
#include "kolo/base/file.h"
#include "kolo/base/random.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/nbody.h"
#include "kolo/nn/loss.h"
#include "settings/choice_reader.h"
#include "settings/yaml/yaml.h"
#include "support/says.h"

namespace kolo {
namespace {

using ::testing::UnorderedElementsAreArray;

// Values that each key accepts, drawn at random.
class RandomConfig {
 public:
  explicit RandomConfig(uint64_t seed) : random_(seed, 0, 0) {}

  // Draws until no two features exclude each other.
  RunConfig make() {
    auto run = draw();
    while (!conflicts(step_features_of(run)).empty()) run = draw();
    return run;
  }

 private:
  RunConfig draw() {
    RunConfig run;
    run.description = text();
    run.output_dir = text('r');
    run.seed = random_.next64();
    run.data = data();
    run.model = model();
    run.optimizer = optimizer();
    run.training = training();
    run.checkpoint = {whole(), whole(), whole(), coin()};
    run.communication = {.launcher = pick<LauncherChoice>(),
                         .shared_memory = pick<SharedMemory>(),
                         .bucket_mb = uniform() + 1,
                         .overlap = coin(),
                         .compression = pick<Compression>(),
                         .device_channel = pick<DeviceChannelKind>()};
    run.device = {
        pick<DeviceKind>(), coin(), coin(), coin(), coin(), coin(), coin(), coin(), small()};
    if (run.communication.compression == Compression::powersgd) {
      run.communication.powersgd_rank = maybe(whole());
      run.communication.powersgd_start_step = maybe(whole());
    }
    const bool takes_whole = optimizer_entry(run.optimizer.name).takes_whole_parameters;
    run.optimizer.sharded = coin() && !takes_whole;
    if (coin() && run.training.batch_size)
      run.training.accumulation = 1 + random_.below(static_cast<std::uint32_t>(
                                          std::min<int64_t>(*run.training.batch_size, 1000)));
    return run;
  }

  DataConfig data() {
    DataConfig data;
    data.name = pick({"mnist", "fashion_mnist", "cifar10", "imagenet", "dummy", "nbody"});
    data.n_train = whole();
    data.n_valid = data.name == "nbody" ? whole() : maybe(whole());
    data.workers = small();
    data.prefetch = small();
    data.shuffle = coin();
    data.own = own_settings(dataset_entry(data.name));
    return data;
  }

  ModelConfig model() {
    ModelConfig model;
    model.name = pick({"mnist_net", "mnist_cnn", "cnn", "small_cnn", "resnet_small", "resnet34",
                       "resnet50", "unet3d", "mlp", "torchscript"});
    model.own = own_settings(built_in_models().find(model.name));
    model.sync_batch_norm = !built_in_models().find(model.name).is_script && coin();
    model.l2 = number();
    model.n_classes = maybe(whole() + 1);
    if (coin()) model.input_shape = {small()};
    if (coin()) model.init_from = text('i');
    if (model.name != "torchscript" && coin()) model.freeze = {text(), text()};
    return model;
  }

  OptimizerConfig optimizer() {
    OptimizerConfig optimizer;
    const auto& entries = built_in_optimizers();
    optimizer.name = entries[random_.below(static_cast<uint32_t>(entries.size()))].name;
    optimizer.lr = number();
    optimizer.lr_scaling = pick<Scaling>();
    optimizer.weight_decay = number();
    optimizer.decay_excludes_vectors = coin();
    optimizer.own = own_settings(optimizer_entry(optimizer.name));
    optimizer.shared_step = coin();
    return optimizer;
  }

  // Values that keys of catalogues accept; those that depend on others are left out.
  OwnSettings own_settings(const ChoiceEntry& entry) {
    const auto fraction = [&] { return fmt::format("{}", uniform()); };
    const auto decimal = [&] { return fmt::format("{}", number()); };
    const auto truth = [&] { return std::string(coin() ? "true" : "false"); };
    const auto name = [](auto value) { return std::string(name_of(value)); };
    const bool has_labels = coin();
    const auto shape = [&] { return fmt::format("[{}, {}]", whole() % 512 + 5, small()); };
    const std::map<std::string, std::function<std::string()>> values{
        {"momentum", fraction},
        {"beta1", fraction},
        {"beta2", fraction},
        {"rho", fraction},
        {"epsilon", decimal},
        {"initial_accumulator", decimal},
        {"trust_coefficient", decimal},
        {"epsilon_form", [&] { return name(pick<EpsilonForm>()); }},
        {"amsgrad", truth},
        {"augment", truth},
        {"height_shift", fraction},
        {"width_shift", fraction},
        {"zoom", fraction},
        {"horizontal_flip", truth},
        {"preprocessing", [&] { return name(pick<NamedPreprocessing>()); }},
        {"input_shape", shape},
        {"n_classes", [&] { return has_labels ? std::to_string(whole()) : "null"; }},
        {"target_shape", [&] { return has_labels ? "[]" : shape(); }},
        {"mode", [&] { return name(pick<BoxMode>()); }},
        {"dropout", fraction},
        {"label_smoothing", fraction},
        {"lambda_rho", fraction},
        {"lr_final_fraction", fraction},
        {"lr_decay_power", decimal},
        {"batch_norm_momentum", fraction},
        {"full_scale", [&] { return has_labels ? truth() : "null"; }},
        {"levels", [&] { return has_labels ? "null" : std::to_string(small() % 12 + 1); }},
        {"channels", [&] { return std::to_string(small()); }},
        {"hidden", [&] { return has_labels ? "[]" : fmt::format("[{}, {}]", small(), small()); }},
        {"activation",
         [&] {
           return pick({"relu", "tanh", "gelu", "silu", "sigmoid"});
         }},
        {"bias", truth},
        {"file", [&] { return "m" + std::to_string(small()); }},
        {"rotations", [&] { return name(pick<Rotations>()); }},
        {"crop", [&] { return std::to_string(small()); }},
        {"box_size", [&] { return std::to_string(100 + small()); }}};
    ConfigValue mapping;
    mapping.kind = ConfigValue::Kind::mapping;
    for (const auto& key : keys_of(entry)) {
      if (key == "path" || key.ends_with("_path") || key.ends_with("_dir"))
        set_text(mapping, key, escape_path(text('p')));
      else if (const auto value = values.find(key); value != values.end())
        mapping.entries.push_back({key, read_yaml_text(value->second(), "test")});
    }
    auto own = entry.defaults;
    const KnownSettings none;
    SectionReader reader(mapping, "", none);
    own.holder().read(reader);
    entry.complete(own);
    return own;
  }

  TrainingConfig training() {
    TrainingConfig training;
    (coin() ? training.batch_size : training.global_batch_size) = whole();
    training.base_batch_size = maybe(whole());
    training.n_epochs = whole();
    training.max_steps = maybe(whole());
    (coin() ? training.lr_warmup_epochs : training.lr_warmup_from) = uniform();
    if (training.lr_warmup_epochs == 0) training.lr_warmup_steps = whole();
    for (auto parts = random_.below(3); parts > 0; --parts) {
      const double start = training.lr_schedule.empty()
                               ? uniform()
                               : training.lr_schedule.back().end_epoch.value_or(1) + uniform();
      training.lr_schedule.push_back({start, start + 1 + uniform(), number()});
    }
    training.lr_warmup_when = pick<WarmupWhen>();
    if (training.lr_schedule.empty())
      training.lr_decay = pick({"none", "cosine", "cosine_shifted", "polynomial"});
    training.lr_decay_own = own_settings(schedule_entry(training.lr_decay));
    set_loss(training);
    training.precision = pick<Precision>();
    training.clip_norm = number();
    training.early_stopping_patience = whole();
    training.non_finite = pick<NonFiniteStep>();
    training.check_replicas_every = whole();
    training.log_every = whole();
    training.validation_batch_size = maybe(whole());
    training.drop_last = coin();
    return training;
  }

  void set_loss(TrainingConfig& training) {
    training.loss = pick({"cross_entropy", "l1", "mse"});
    training.loss_own = own_settings(loss_entry(training.loss));
    training.metrics.clear();
    if (training.loss != "cross_entropy") return;
    training.metrics.emplace_back(Metric::accuracy);
    if (coin()) training.metrics.emplace_back(Metric::top_k_categorical_accuracy);
  }

  bool coin() { return random_.below(2) == 1; }
  int small() { return static_cast<int>(random_.below(100)) + 1; }
  int64_t whole() { return static_cast<int64_t>(random_.next64() >> (35 + random_.below(29))) + 1; }
  double uniform() { return static_cast<double>(random_.next64() >> 11) * 0x1p-53; }
  double number() {
    return (uniform() + 1e-9) * std::pow(10, static_cast<double>(random_.below(40)) - 20);
  }
  std::string pick(std::vector<std::string> names) {
    return names[random_.below(static_cast<uint32_t>(names.size()))];
  }
  template <NamedEnum E>
  E pick() {
    const auto names = enum_names(E{});
    return names[random_.below(static_cast<uint32_t>(names.size()))].value;
  }
  template <typename T>
  std::optional<T> maybe(T value) {
    return coin() ? std::optional<T>(value) : std::nullopt;
  }
  // Pieces that mean something to YAML or to a shell.
  std::string text(char first = 't') {
    static const std::vector<std::string> pieces = {
        "a",  "Z",  "0",  "on", "null", "~",  "$", "$HOME", "${X}", "\"", "'", "\\",
        "\n", "\t", ": ", "#",  " #",   "- ", "[", "}",     "&a",   "*a", "!", "%",
        "@",  "é",  "日", " ",  "1e5",  "/",  "?", "\x01",  "\x7f", ","};
    std::string joined(1, first);
    for (auto count = random_.below(6); count > 0; --count) joined += pick(pieces);
    return joined;
  }

  CounterRandom random_;
};

class RoundTrip : public testing::ConfigTest {};

TEST_F(RoundTrip, AnyConfigurationComesBackTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RunConfig config = RandomConfig(seed).make();
    const std::string text = to_yaml(config);
    const RunConfig again = load(text);
    EXPECT_EQ(to_yaml(again), text);
    EXPECT_EQ(settings_of(again), settings_of(config));
    // to_yaml() could lose the same value twice: compare those that are most easily lost.
    EXPECT_EQ(again.description, config.description);
    EXPECT_EQ(again.output_dir, config.output_dir);
    EXPECT_EQ(again.model.name, config.model.name);
    EXPECT_EQ(again.model.init_from, config.model.init_from);
    EXPECT_EQ(again.model.freeze, config.model.freeze);
    EXPECT_EQ(again.training.accumulation, config.training.accumulation);
    EXPECT_EQ(again.communication.compression, config.communication.compression);
    EXPECT_EQ(again.communication.powersgd_rank, config.communication.powersgd_rank);
    EXPECT_EQ(again.optimizer.sharded, config.optimizer.sharded);
    EXPECT_EQ(again.seed, config.seed);
    EXPECT_EQ(again.data.n_train, config.data.n_train);
    EXPECT_EQ(again.data.n_valid, config.data.n_valid);
    EXPECT_EQ(again.optimizer.lr, config.optimizer.lr);
    EXPECT_EQ(again.optimizer.name, config.optimizer.name);
    EXPECT_EQ(again.training.metrics, config.training.metrics);
    ASSERT_EQ(again.training.lr_schedule.size(), config.training.lr_schedule.size());
    for (std::size_t i = 0; i < config.training.lr_schedule.size(); ++i) {
      EXPECT_EQ(again.training.lr_schedule[i].end_epoch, config.training.lr_schedule[i].end_epoch);
      EXPECT_EQ(again.training.lr_schedule[i].multiplier,
                config.training.lr_schedule[i].multiplier);
    }
    EXPECT_EQ(again.communication.shared_memory, config.communication.shared_memory);
    EXPECT_EQ(again.device.augment, config.device.augment);
    EXPECT_EQ(again.device.graphs, config.device.graphs);
  }
}

TEST_F(RoundTrip, SpellsOutEveryDefault) {
  const std::string text = to_yaml(load(required));
  for (const char* line :
       {"seed: 1\n", "training:\n  batch_size: 64\n", "  lr: 0.01\n", "  momentum: 0\n",
        "  metrics: [accuracy]\n", "  shared_memory: auto\n", "  every_epochs: 1\n", "  keep: 3\n",
        "  dropout: 0.5\n", "output_dir: results/run\n"}) {
    EXPECT_TRUE(says(text, {line}));
  }
}

// All choices together have all keys.
TEST_F(RoundTrip, EveryKeyIsThereAndWhatIsUnsetSaysWhatItMeans) {
  const auto config = load(required);
  const std::string text = to_yaml(config);
  std::set<std::string> keys;
  const auto collect = [&](const std::string& section, const auto& entries, const auto& chooser) {
    for (const auto& entry : entries) {
      for (const auto& [key, value] : settings_of(load(required, {chooser(entry.name)})))
        keys.insert(key);
      for (const auto& key : keys_of(entry)) EXPECT_TRUE(keys.contains(section + key)) << key;
    }
  };
  collect("optimizer.", built_in_optimizers(),
          [](const std::string& name) { return "optimizer.name=" + name; });
  collect("training.", built_in_schedules(),
          [](const std::string& name) { return "training.lr_decay=" + name; });
  collect("training.", built_in_losses(),
          [](const std::string& name) { return "training.loss=" + name; });
  collect("model.", built_in_model_entries(), [](const std::string& name) {
    return "model={name: " + name + ", file: " + (name == "torchscript" ? "m}" : "null}");
  });
  const Overrides datasets[] = {{"data={name: cifar10}"},
                                {"data={name: arrays, train_path: a, valid_path: b}"},
                                {"data={name: imagenet, train_dir: a, valid_dir: b}"},
                                {"data={name: dummy, input_shape: [1], n_train: 1}"},
                                {"data={name: nbody, mode: synthetic, n_train: 1, n_valid: 1}"}};
  for (const auto& data : datasets)
    for (const auto& [key, value] : settings_of(load(required, data))) keys.insert(key);
  for (const auto& entry : built_in_datasets())
    for (const auto& key : keys_of(entry)) EXPECT_TRUE(keys.contains("data." + key)) << key;
  EXPECT_THAT(keys, UnorderedElementsAreArray(testing::setting_names()));
  for (const char* line : {"  n_train: null  # all\n", "  n_classes: null  # the data's\n",
                           "  max_steps: null  # as many as n_epochs has\n"}) {
    EXPECT_TRUE(says(text, {line}));
  }
}

// docs/use/configuration.md, which is written by hand.
TEST_F(RoundTrip, TheReferenceHasEveryKeyAndEveryChoice) {
  const auto page = read_text_file(std::string(KOLO_CONFIGS) + "/../docs/use/configuration.md");
  const auto expect = [&](const std::string& name) {
    EXPECT_NE(page.find('`' + name + '`'), std::string::npos) << name;
  };
  for (const auto& key : testing::setting_names()) expect(key.substr(key.rfind('.') + 1));
  for (const auto& entry : built_in_optimizers()) expect(entry.name);
  for (const auto& entry : built_in_schedules()) expect(entry.name);
  for (const auto& entry : built_in_losses()) expect(entry.name);
  for (const auto& entry : built_in_datasets()) expect(entry.name);
  for (const auto& entry : built_in_model_entries()) expect(entry.name);
}

TEST_F(RoundTrip, ImagesAreVariedAsIsSpelledOut) {
  const auto config_of = [&](const std::string& data) {
    return load("data: {" + data + "}\nmodel: {name: cnn}\noptimizer: {name: sgd}\n");
  };
  const auto cifar10 = config_of("name: cifar10");
  EXPECT_EQ(value_of(cifar10, "data.height_shift"), "0.1");
  EXPECT_EQ(value_of(cifar10, "data.zoom"), "0");
  EXPECT_EQ(value_of(cifar10, "data.horizontal_flip"), "true");
  EXPECT_EQ(value_of(cifar10, "data.preprocessing"), "unit");
  const auto imagenet = config_of("name: imagenet, train_dir: a, valid_dir: b, zoom: 0.25");
  EXPECT_EQ(value_of(imagenet, "data.width_shift"), "0.1");
  EXPECT_EQ(value_of(imagenet, "data.zoom"), "0.25");
  EXPECT_EQ(value_of(imagenet, "data.preprocessing"), "unit");
  const auto plain = config_of("name: fashion_mnist");
  EXPECT_EQ(value_of(plain, "data.horizontal_flip"), "false");
  EXPECT_EQ(value_of(plain, "data.height_shift"), "0");
  const auto flipped = config_of("name: fashion_mnist, horizontal_flip: true");
  EXPECT_EQ(value_of(flipped, "data.horizontal_flip"), "true");
}

TEST_F(RoundTrip, NamesThatOtherReadersTakeForTruthAreQuoted) {
  EXPECT_TRUE(says(to_yaml(load(required, {"communication.shared_memory=on"})),
                   {"shared_memory: \"on\"\n"}));
}

TEST_F(RoundTrip, ResolvedPathsNoLongerDependOnTheEnvironment) {
  setenv("KOLO_TEST_FOLDER", "/a$b", 1);
  const std::string text = to_yaml(load(required, {"output_dir=$KOLO_TEST_FOLDER"}));
  unsetenv("KOLO_TEST_FOLDER");
  EXPECT_EQ(load(text).output_dir, "/a$b");
}

TEST_F(RoundTrip, AFolderCalledTildeIsNotTheHomeFolder) {
  RunConfig config = load(required);
  config.output_dir = "~/x";
  EXPECT_EQ(load(to_yaml(config)).output_dir, "./~/x");
}

}  // namespace
}  // namespace kolo
