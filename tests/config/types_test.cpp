// One key at a time: the values that it takes, and messages about others.
#include "config/config_fixture.h"

#include <cstdlib>

#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

class Types : public testing::ConfigTest {
 protected:
  [[nodiscard]] RunConfig load_after_required(const std::string& lines) const {
    return load(required + lines);
  }
};

TEST_F(Types, EveryKindOfValueIsRead) {
  const RunConfig config = load(
      "description: \"a: b\"\n"
      "output_dir: out/here\n"
      "seed: 18446744073709551615\n"
      "data: {name: dummy, n_train: 100, n_valid: 10, input_shape: [3, 32, +32], shuffle: no, "
      "workers: 2}\n"
      "model: {name: cnn, dropout: .25}\n"
      "optimizer: {name: AdamW, lr: 1e-3, beta1: 0.5, epsilon: 1.}\n"
      "checkpoint:\n"
      "communication: {shared_memory: off, launcher: MPI, overlap: False}\n");
  EXPECT_EQ(config.description, "a: b");
  EXPECT_EQ(config.output_dir, "out/here");
  EXPECT_EQ(config.seed, 18446744073709551615U);
  EXPECT_EQ(config.data.n_train, 100);
  EXPECT_EQ(config.data.n_valid, 10);
  EXPECT_EQ(value_of(config, "data.input_shape"), "[3, 32, 32]");
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.data.workers, 2);
  EXPECT_EQ(value_of(config, "model.dropout"), "0.25");
  EXPECT_EQ(config.optimizer.name, "adamw");
  EXPECT_EQ(config.optimizer.lr, 0.001);
  EXPECT_EQ(value_of(config, "optimizer.epsilon"), "1");
  EXPECT_EQ(value_of(config, "optimizer.beta1"), "0.5");
  EXPECT_EQ(config.communication.shared_memory, SharedMemory::off);
  EXPECT_EQ(config.communication.launcher, LauncherChoice::mpi);
  EXPECT_FALSE(config.communication.overlap);
}

TEST_F(Types, OnAndOffAreNamesWhereNamesAreExpectedAndTruthElsewhere) {
  for (const char* word : {"on", "off", "On", "\"on\""}) {
    const RunConfig config =
        load_after_required("communication: {shared_memory: " + std::string(word) + "}\n");
    EXPECT_THAT(config.communication.shared_memory,
                ::testing::AnyOf(SharedMemory::on, SharedMemory::off));
  }
  EXPECT_FALSE(load_after_required("checkpoint: {asynchronous: off}\n").checkpoint.asynchronous);
  EXPECT_EQ(error_after_required("communication:\n  shared_memory: true\n"),
            "run.yaml:5: communication.shared_memory: expected one of auto, on, off, got \"true\"");
}

TEST_F(Types, WholeNumbers) {
  EXPECT_EQ(error_after_required("training:\n  batch_size: abc\n"),
            "run.yaml:5: training.batch_size: expected a whole number greater than 0, got \"abc\"");
  for (const char* text : {"0", "-1", "1.5", "64.0", "1e3", "1_000", "0x10", "010", "0o10", "++1",
                           "+-1", "\" 1\"", "true", ".inf", "12 34", "1,000"}) {
    EXPECT_THAT(
        error_after_required("training:\n  n_epochs: " + std::string(text) + "\n"),
        StartsWith("run.yaml:5: training.n_epochs: expected a whole number greater than 0, got "))
        << text;
  }
}

TEST_F(Types, NumbersBeyondTheirTypeSayTheirLimits) {
  for (const char* number : {"1000000001", "9223372036854775808", "12345678901234567890"}) {
    EXPECT_EQ(error_after_required("training:\n  batch_size: " + std::string(number) + "\n"),
              "run.yaml:5: training.batch_size: expected a whole number greater than 0, got \"" +
                  std::string(number) + "\"; the greatest is 1000000000");
  }
  for (const char* threads : {"1025", "100000", "3000000000"}) {
    EXPECT_TRUE(
        says(error_after_required("device:\n  intra_threads: " + std::string(threads) + "\n"),
             {"the greatest is 1024"}));
  }
  EXPECT_TRUE(says(error_after_required("training:\n  log_every: 9223372036854775808\n"),
                   {"the greatest is 9223372036854775807"}));
  EXPECT_TRUE(says(error_after_required("seed: 18446744073709551616\n"), {"18446744073709551615"}));
  EXPECT_THAT(error_after_required("seed: -1\n"),
              StartsWith("run.yaml:4: seed: expected a whole number of at least 0, got \"-1\""));
  EXPECT_EQ(load_after_required("training: {batch_size: 1000000000}\n").training.batch_size,
            1000000000);
}

TEST_F(Types, NumbersAreFiniteAndInRange) {
  for (const char* text :
       {"0", "-0.1", ".nan", "nan", ".inf", "inf", "1e999", "1e-999", "fast", "0.1x", "\"0.1\""}) {
    EXPECT_THAT(
        error("data: {name: fashion_mnist}\nmodel: {name: cnn}\noptimizer:\n  name: sgd\n  lr: " +
              std::string(text) + "\n"),
        StartsWith("run.yaml:5: optimizer.lr: expected a number greater than 0, got "))
        << text;
  }
  EXPECT_TRUE(says(error_after_required("", {"optimizer.momentum=1"}),
                   {"expected a number of at least 0 and less than 1, got \"1\""}));
  EXPECT_TRUE(says(error_after_required("communication: {bucket_mb: 1e300}\n"), {"at most 65536"}));
}

TEST_F(Types, LoadingWithoutThreadsIsPossible) {
  EXPECT_EQ(load(required, {"data.workers=0"}).data.workers, 0);
  EXPECT_TRUE(says(error(required, {"data.workers=1025"}), {"a whole number from 0 to 1024"}));
  EXPECT_TRUE(says(error(required, {"data.prefetch=0"}), {"a whole number from 1 to 65536"}));
}

TEST_F(Types, QuotesMakeAText) {
  EXPECT_TRUE(says(error_after_required("training: {batch_size: \"64\"}\n"), {"leave them out"}));
  EXPECT_TRUE(says(error_after_required("training: {drop_last: 'true'}\n"), {"leave them out"}));
  EXPECT_EQ(load_after_required("description: 12\n").description, "12");
}

TEST_F(Types, TruthValues) {
  EXPECT_EQ(error_after_required("training:\n  drop_last: maybe\n"),
            "run.yaml:5: training.drop_last: expected true or false, got \"maybe\"");
  EXPECT_THAT(error_after_required("training:\n  drop_last: 1\n"),
              EndsWith("expected true or false, got \"1\""));
}

TEST_F(Types, Lists) {
  EXPECT_TRUE(
      says(error_after_required("", {"model.input_shape=28"}),
           {"model.input_shape: expected a list like [1, 28, 28], each a whole number greater "
            "than 0, got \"28\""}));
  EXPECT_EQ(
      error_after_required("", {"model.input_shape=[1, 0]"}),
      "command line: model.input_shape[1]: expected a whole number greater than 0, got \"0\"");
  EXPECT_THAT(error("data:\n  name: dummy\n  input_shape:\n    - 1\n    - x\n"),
              StartsWith("run.yaml:5: data.input_shape[1]: "));
}

TEST_F(Types, ListsMappingsAndNothingInPlaceOfAValue) {
  EXPECT_THAT(error_after_required("training:\n  batch_size: [1]\n"),
              EndsWith("greater than 0, got a list"));
  EXPECT_THAT(error_after_required("training:\n  batch_size: {a: 1}\n"), EndsWith("got a mapping"));
  EXPECT_THAT(
      error_after_required("training:\n  n_epochs:\n"),
      StartsWith(
          "run.yaml:5: training.n_epochs: expected a whole number greater than 0, got nothing"));
  EXPECT_THAT(error_after_required("description: [a]\n"), EndsWith("expected a text, got a list"));
  EXPECT_THAT(error_after_required("output_dir: ~\n"), EndsWith("expected a path, got nothing"));
  EXPECT_THAT(
      error_after_required("training: 3\n"),
      StartsWith(
          "run.yaml:4: training: expected a mapping with keys batch_size, local_batch_size, "));
  EXPECT_THAT(error_after_required("training: [a]\n"), EndsWith("got a list"));
}

TEST_F(Types, NothingLeavesAnOptionalKeyUnset) {
  EXPECT_FALSE(load("data: {name: fashion_mnist, n_train: }\nmodel: {name: cnn, dropout: null}\n"
                    "optimizer: {name: sgd}\n")
                   .data.n_train.has_value());
  EXPECT_FALSE(
      load("data: {name: fashion_mnist, n_train: 5}\nmodel: {name: cnn}\noptimizer: {name: sgd}\n",
           {"data.n_train=null"})
          .data.n_train.has_value());
}

TEST_F(Types, NamesAreListedAndTheNearestSuggested) {
  std::string names;
  for (const auto& entry : built_in_optimizers()) names += entry.name + ", ";
  EXPECT_EQ(error("data: {name: fashion_mnist}\nmodel: {name: cnn}\noptimizer:\n  name: Adan\n"),
            "run.yaml:4: optimizer.name: expected one of " + names +
                "got \"Adan\"; did you mean \"adam\"?");
  EXPECT_THAT(
      error("data:\n  name: cifar\n"),
      StartsWith("run.yaml:2: data.name: expected one of mnist, fashion_mnist, cifar10, "
                 "imagenet, dummy, nbody, arrays, got \"cifar\"; did you mean \"cifar10\"?"));
  EXPECT_TRUE(
      says(error_after_required("", {"optimizer.lr_scaling=liner"}), {"did you mean \"linear\"?"}));
  EXPECT_TRUE(says(error_after_required("training: {loss: huber}\n"),
                   {"expected one of cross_entropy, binary_crossentropy, l1, mse, got \"huber\""}));
  EXPECT_TRUE(says(error_after_required("training: {loss: maee}\n"), {"did you mean \"mae\"?"}))
      << "another framework's name, which is understood";
  EXPECT_TRUE(says(error_after_required("communication: {launcher: gloo}\n"),
                   {"one of auto, processes, mpi"}));
}

TEST_F(Types, UnknownKeysNameTheNearestAndAllKnown) {
  EXPECT_THAT(error_after_required("training:\n  n_epochs: 2\n  bach_size: 2\n"),
              AllOf(StartsWith("run.yaml:6: training: unknown key \"bach_size\"; did you mean "
                               "\"batch_size\"? Known: batch_size, local_batch_size, "),
                    EndsWith("drop_last")));
  EXPECT_EQ(error_after_required("traning:\n  n_epochs: 2\n"),
            "run.yaml:4: unknown key \"traning\"; did you mean \"training\"? Known: description, "
            "output_dir, seed, "
            "data, model, optimizer, training, checkpoint, communication, parallel, device");
  EXPECT_THAT(
      error_after_required("device: {zebra: 1}\n"),
      EndsWith(
          "device: unknown key \"zebra\". Known: kind, shared, channels_last, cudnn_benchmark, "
          "tf32, deterministic, augment, graphs, intra_threads"));
}

TEST_F(Types, AMisspeltRequiredKeyIsCalledUnknownRatherThanMissing) {
  EXPECT_TRUE(
      says(error("data: {nmae: dummy}\n"), {"unknown key \"nmae\"; did you mean \"name\"?"}));
}

TEST_F(Types, RequiredKeysAreMissed) {
  EXPECT_EQ(error("# a comment\nseed: 1\n"),
            "run.yaml:2: data.name: this key is required and missing; expected one of mnist, "
            "fashion_mnist, cifar10, imagenet, dummy, nbody, arrays");
  EXPECT_EQ(
      error("data: {name: fashion_mnist}\nmodel:\n  dropout: 0.5\n"),
      "run.yaml:2: model.name: this key is required and missing; expected one of mnist_net, "
      "mnist_cnn, cnn, small_cnn, resnet_small, resnet34, resnet50, unet3d, mlp, torchscript");
  EXPECT_THAT(error("data: {name: fashion_mnist}\nmodel: {name: cnn}\noptimizer:\n"),
              StartsWith("run.yaml:3: optimizer.name: this key is required and missing"));
}

TEST_F(Types, MessagesStayOneReadableLine) {
  const std::string message =
      error_after_required("training: {loss: \"a\\e[31m\\n" + std::string(500, 'x') + "\"}\n");
  EXPECT_TRUE(says(message, {"\"a?[31m?xxx"}));
  EXPECT_LT(message.size(), 300U);
}

class Environment : public testing::ConfigTest {
 protected:
  void SetUp() override {
    setenv("KOLO_TEST_FOLDER", "/some/where", 1);
    setenv("HOME", "/home/someone", 1);
    unsetenv("KOLO_TEST_UNSET");
  }
  void TearDown() override { unsetenv("KOLO_TEST_FOLDER"); }

  [[nodiscard]] std::string path_for(const std::string& text) const {
    return load(std::string(required) + "output_dir: '" + text + "'\n").output_dir;
  }
};

TEST_F(Environment, IsExpandedInPaths) {
  EXPECT_EQ(path_for("$KOLO_TEST_FOLDER/a"), "/some/where/a");
  EXPECT_EQ(path_for("a/${KOLO_TEST_FOLDER}b"), "a//some/whereb");
  EXPECT_EQ(path_for("$$KOLO_TEST_FOLDER"), "$KOLO_TEST_FOLDER");
  EXPECT_EQ(path_for("$$$KOLO_TEST_FOLDER$$"), "$/some/where$");
  EXPECT_EQ(path_for("~/a"), "/home/someone/a");
  EXPECT_EQ(path_for("~"), "/home/someone");
  EXPECT_EQ(path_for("a~/~b"), "a~/~b");
  EXPECT_EQ(path_for("~other/a"), "~other/a");
  EXPECT_EQ(value_of(load(required, {"data.path=$KOLO_TEST_FOLDER"}), "data.path"), "/some/where");
}

TEST_F(Environment, IsLeftAloneElsewhere) {
  EXPECT_EQ(load(required, {"description=$KOLO_TEST_UNSET ~"}).description, "$KOLO_TEST_UNSET ~");
}

TEST_F(Environment, AnUnsetVariableIsNamedWithFileAndLine) {
  EXPECT_THAT(
      error_after_required("output_dir: ${KOLO_TEST_UNSET}/x\n"),
      AllOf(
          StartsWith("run.yaml:4: output_dir: the environment variable KOLO_TEST_UNSET is not set"),
          HasSubstr("${KOLO_TEST_UNSET}/x")));
  EXPECT_THAT(
      error(required, {"data.path=$KOLO_TEST_UNSET"}),
      StartsWith("command line: data.path: the environment variable KOLO_TEST_UNSET is not set"));
  unsetenv("HOME");
  EXPECT_TRUE(says(error_after_required("output_dir: ~/x\n"), {"variable HOME is not set"}));
}

TEST_F(Environment, ADollarNeedsAName) {
  for (const char* text :
       {"a$", "$/a", "$1", "${}", "${1A}", "${KOLO_TEST_FOLDER", "${A B}", "$-x"}) {
    EXPECT_THAT(error_after_required("output_dir: '" + std::string(text) + "'\n"),
                AllOf(StartsWith("run.yaml:4: output_dir: in "), HasSubstr("must be followed by")))
        << text;
  }
}

}  // namespace
}  // namespace kolo
