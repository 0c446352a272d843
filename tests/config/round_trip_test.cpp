// to_yaml() and back.
#include <cmath>
#include <cstdlib>

#include "config/config_fixture.h"
#include "kolo/base/random.h"

namespace kolo {
namespace {

using ::testing::HasSubstr;

// Values that each key accepts, drawn at random.
class RandomConfig {
 public:
  explicit RandomConfig(uint64_t seed) : random_(seed, 0, 0) {}

  RunConfig make() {
    RunConfig run;
    run.description = text();
    run.output_dir = text('r');
    run.seed = random_.next64();
    run.data = {pick({"mnist", "fashion_mnist", "dummy"}),
                text('d'),
                whole(),
                maybe(whole()),
                small(),
                small(),
                coin(),
                {whole() % 512 + 1, small()},
                whole()};
    run.model = {text('m'), maybe(share()), {}, maybe(whole())};
    if (coin()) run.model.input_shape = {small()};
    run.optimizer = {pick({"sgd", "adam", "adamw"}),
                     number(),
                     pick({"none", "linear", "sqrt"}),
                     share(),
                     share(),
                     number(),
                     false,
                     share(),
                     share(),
                     number()};
    run.training = {whole(), whole(), coin() ? number() : 0, 0, "cross_entropy", whole(),
                    whole(), coin()};
    if (run.training.lr_warmup_epochs == 0) run.training.lr_warmup_steps = whole();
    run.checkpoint = {coin(), whole(), whole(), whole(), coin()};
    run.communication = {pick({"auto", "mpi", "solo"}), pick({"auto", "on", "off"}), share() + 1,
                         share() + 0.1, coin()};
    run.device = {small(), small()};
    return run;
  }

 private:
  bool coin() { return random_.below(2) == 1; }
  int small() { return static_cast<int>(random_.below(100)) + 1; }
  int64_t whole() { return static_cast<int64_t>(random_.next64() >> (1 + random_.below(63))) + 1; }
  double share() { return static_cast<double>(random_.next64() >> 11) * 0x1p-53; }
  double number() {
    return (share() + 1e-9) * std::pow(10, static_cast<double>(random_.below(40)) - 20);
  }
  std::string pick(std::vector<std::string> names) {
    return names[random_.below(static_cast<uint32_t>(names.size()))];
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
    // to_yaml() could lose the same thing twice: compare what is most easily lost.
    EXPECT_EQ(again.description, config.description);
    EXPECT_EQ(again.output_dir, config.output_dir);
    EXPECT_EQ(again.data.path, config.data.path);
    EXPECT_EQ(again.model.name, config.model.name);
    EXPECT_EQ(again.seed, config.seed);
    EXPECT_EQ(again.data.n_train, config.data.n_train);
    EXPECT_EQ(again.data.n_valid, config.data.n_valid);
    EXPECT_EQ(again.data.input_shape, config.data.input_shape);
    EXPECT_EQ(again.model.dropout, config.model.dropout);
    EXPECT_EQ(again.optimizer.lr, config.optimizer.lr);
    EXPECT_EQ(again.optimizer.beta2, config.optimizer.beta2);
    EXPECT_EQ(again.communication.shared_memory, config.communication.shared_memory);
    EXPECT_EQ(again.device.inter_threads, config.device.inter_threads);
  }
}

TEST_F(RoundTrip, SpellsOutEveryDefault) {
  const std::string text = to_yaml(load(required));
  for (const char* line :
       {"seed: 1\n", "training:\n  batch_size: 64\n", "  lr: 0.01\n", "  epsilon: 1e-08\n",
        "  shared_memory: auto\n", "  enabled: true\n", "output_dir: results/run\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(RoundTrip, NamesThatOtherReadersTakeForTruthAreQuoted) {
  EXPECT_THAT(to_yaml(load(required, {"communication.shared_memory=on"})),
              HasSubstr("shared_memory: \"on\"\n"));
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
