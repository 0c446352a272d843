// Configurations that include other files.
#include "config/config_fixture.h"
#include "support/says.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Include : public testing::ConfigTest {
 protected:
  Include() {
    folder_.write("parts/base.yaml", required + std::string("training: {n_epochs: 3}\n"));
  }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
};

TEST_F(Include, AFileHasWhatAnotherOneSaysAndItsOwnKeysWin) {
  const auto config = load("include: parts/base.yaml\ntraining: {batch_size: 7}\n");
  EXPECT_EQ(config.model.name, "mnist_net");
  EXPECT_EQ(config.training.n_epochs, 3);
  EXPECT_EQ(config.training.batch_size, 7);
  EXPECT_EQ(load("training: {n_epochs: 5}\ninclude: parts/base.yaml\n").training.n_epochs, 5);
  EXPECT_EQ(load("include: parts/base.yaml\n", {"training.n_epochs=9"}).training.n_epochs, 9);
}

TEST_F(Include, OfSeveralFilesTheLastWins) {
  write("parts/fast.yaml", "optimizer: {lr: 0.75}\ntraining: {batch_size: 9}\n");
  const auto config = load("include: [parts/base.yaml, parts/fast.yaml]\n");
  EXPECT_EQ(config.optimizer.name, "sgd");
  EXPECT_EQ(config.optimizer.lr, .75);
  EXPECT_EQ(config.training.n_epochs, 3);
  write("parts/slow.yaml", "training: {n_epochs: 30}\n");
  EXPECT_EQ(load("include: [parts/base.yaml, parts/slow.yaml]\n").training.n_epochs, 30);
  EXPECT_EQ(load("include: [parts/slow.yaml, parts/base.yaml]\n").training.n_epochs, 3);
}

// Paths are relative to the file that names them.
TEST_F(Include, IncludedFilesIncludeAndSectionsToo) {
  write("parts/more.yaml", "include: base.yaml\noptimizer: {name: adam, beta1: 0.5}\n");
  EXPECT_EQ(load("include: parts/more.yaml\n").optimizer.name, "adam");
  EXPECT_EQ(load("include: parts/more.yaml\noptimizer: {name: sgd}\n").optimizer.name, "sgd");
  write("parts/rates.yaml", "lr: 0.125\n");
  EXPECT_EQ(load("include: parts/base.yaml\noptimizer: {include: parts/rates.yaml}\n").optimizer.lr,
            .125);
  const auto named = load("one: {include: parts/base.yaml}\ntwo: {seed: 2}\n", {}, "one");
  EXPECT_EQ(named.training.n_epochs, 3);
}

TEST_F(Include, MessagesNameTheFileAndLineOfTheValue) {
  write("parts/wrong.yaml", "training:\n  n_epochs: 2\n  batch_size: none\n");
  EXPECT_THAT(error(std::string(required) + "include: parts/wrong.yaml\n"),
              StartsWith("parts/wrong.yaml:3: training.batch_size: "));
  write("parts/broken.yaml", "training: {\n");
  EXPECT_THAT(error("include: parts/broken.yaml\n"), StartsWith("parts/broken.yaml:"));
}

TEST_F(Include, WhatCannotBeIncludedIsRefused) {
  EXPECT_THAT(error("seed: 1\ninclude: parts/none.yaml\n"),
              AllOf(StartsWith("run.yaml:2: include: "), HasSubstr("parts/none.yaml"),
                    HasSubstr("relative to the file")));
  EXPECT_THAT(error("include: {a: b}\n"), StartsWith("run.yaml:1: include: expected a file or"));
  EXPECT_THAT(error("include: [[a]]\n"), StartsWith("run.yaml:1: include: expected a file or"));
  EXPECT_TRUE(says(error("include: a\ninclude: b\n"), {"is given twice"}));
  EXPECT_THAT(error("include: run.yaml\n"),
              AllOf(StartsWith("run.yaml:1: include: "), HasSubstr("includes itself")));
  write("parts/there.yaml", "include: back.yaml\n");
  write("parts/back.yaml", "include: there.yaml\n");
  EXPECT_THAT(error("include: parts/there.yaml\n"),
              AllOf(StartsWith("parts/back.yaml:1: include: "), HasSubstr("includes itself")));
  EXPECT_TRUE(says(error(required, {"include=parts/base.yaml"}), {"unknown key \"include\""}));
}

}  // namespace
}  // namespace kolo
