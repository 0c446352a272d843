// A program with a network of its own has kolo's commands.
#include <cstdlib>

#include <torch/nn/modules/linear.h>

#include "cli/program.h"
#include "cli/small_runs.h"
#include "kolo/cli/run_main.h"
#include "kolo/config/factories.h"
#include "kolo/data/dataset.h"
#include "kolo/nn/network.h"
#include "kolo/train/objective.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Words = std::vector<std::string>;

class OneLayer final : public Network {
 public:
  explicit OneLayer(const ModelOptions& options)
      : layer_(register_module("layer", torch::nn::Linear(28 * 28, options.classes))) {}
  torch::Tensor forward(const torch::Tensor& input) override { return layer_(input.flatten(1)); }

 private:
  torch::nn::Linear layer_;
};

class OwnProgram : public SmallRuns {
 protected:
  // The program ./own.
  [[nodiscard]] ProcessResult run_own(
      Words words, const std::map<std::string, std::string>& environment = {}) const {
    words.insert(words.begin(), "./own");
    const auto main = [&] {
      std::vector<char*> argv;
      for (auto& word : words) argv.push_back(word.data());
      return run_main(static_cast<int>(argv.size()), argv.data(), components);
    };
    return run_in_fork(main, {.environment = environment});
  }
  [[nodiscard]] ProcessResult train_own(const Words& more, const std::string& output = "run") {
    return run_own(arguments(more, output));
  }

  RunComponents components = [] {
    RunComponents own;
    own.models.add({.name = "one_layer",
                    .description = "one layer",
                    .make = [](const auto& options) { return std::make_shared<OneLayer>(options); },
                    .has_batch_norm = false});
    return own;
  }();
  const std::string run = folder / "run";
};

TEST_F(OwnProgram, HasTheCommandsForRuns) {
  const Words own = {"model.name=one_layer", "training.n_epochs=1"};
  ASSERT_TRUE(succeeds(train_own(own)));
  EXPECT_EQ(history().epochs().back().epoch, 1);
  const auto resumed = train_own({"model.name=one_layer", "training.n_epochs=2", "--resume"});
  EXPECT_TRUE(says(resumed.output, {"resuming from"})) << resumed.errors;
  EXPECT_EQ(history().epochs().back().epoch, 2);

  const auto measured = run_own({"eval", run});
  EXPECT_TRUE(says(measured.output, {"one_layer", "100 samples", "accuracy"})) << measured.errors;
  const auto benched = run_own({"bench", config, own[0], "--mode", "full", "--steps", "1",
                                "--warmup", "0", "--trials", "1", "--profile"});
  EXPECT_TRUE(says(benched.output, {"one_layer"})) << benched.errors;
  EXPECT_EQ(run_own({"report", run, "-o", folder / "page.html"}).exit_code, 0);
  for (const Words& study :
       {Words{"scale", "--ranks", "1"}, Words{"sweep", "optimizer.lr=0.1,0.2"}}) {
    auto words = study;
    words.insert(words.begin() + 1, {config, own[0], "--dry-run"});
    const auto planned = run_own(words);
    EXPECT_TRUE(says(planned.output, {"\n  own train " + config})) << planned.errors;
  }
}

TEST_F(OwnProgram, IsNamedToJobs) {
  const auto jobs = folder.write("jobs", "");
  folder.write_program("bin/sbatch", "#!/bin/sh\necho \"$@\" > " + jobs.string() + "; echo 7");
  EXPECT_TRUE(succeeds(run_own({"scale", config, "model.name=one_layer", "--ranks", "1", "--submit",
                                "slurm", "--job-script", config, "-o", folder / "study"},
                               {{"PATH", (folder / "bin").string() + ":" + std::getenv("PATH")}})));
  EXPECT_TRUE(says(read_text_file(jobs), {"--export=ALL,KOLO=/", "/cli_tests"}));
}

TEST_F(OwnProgram, StartsRanksOfItself) {
  ASSERT_TRUE(succeeds(train_own({"model.name=one_layer", "training.n_epochs=1", "-n", "2"}),
                       {"started by kolo, without MPI: rank 0 of 2"}));
  const auto measured = run_own({"eval", run, "-n", "2"});
  EXPECT_TRUE(says(measured.output, {"one_layer", "100 samples, 2 ranks"})) << measured.errors;
}

TEST_F(OwnProgram, IsNamedWhereAnotherLacksItsParts) {
  const auto refused = [&](const std::string& command, const std::string& part) {
    auto words = Words{command, run};
    if (command == "predict") words.insert(words.end(), {"in.npy", "-o", "out.npy"});
    EXPECT_TRUE(is_refused(run_kolo(words),
                           {command + ": " + run + " was trained by ", "/cli_tests, whose " + part,
                            " kolo doesn't know; use ", "/cli_tests " + command + " " + run}));
  };
  ASSERT_EQ(train_own({"model.name=one_layer", "training.n_epochs=1"}).exit_code, 0);
  refused("eval", "network one_layer");
  refused("predict", "network one_layer");
  // A run that uses none of its parts is like any.
  ASSERT_EQ(train_own({"training.n_epochs=1"}).exit_code, 0);
  EXPECT_EQ(run_kolo({"eval", run}).exit_code, 0);
  components.datasets = [](const RunConfig&, const DataReading&) {
    return Datasets{std::make_shared<RandomDataset>(SampleLayout{{1, 28, 28}, 10, {}}, 64, 1),
                    std::make_shared<RandomDataset>(SampleLayout{{1, 28, 28}, 10, {}}, 16, 2)};
  };
  ASSERT_EQ(train_own({"training.n_epochs=1"}).exit_code, 0);
  refused("eval", "data");
  components.datasets = {};
  components.objective = [](const RunConfig& read) { return make_objective(read); };
  ASSERT_EQ(train_own({"training.n_epochs=1"}).exit_code, 0);
  refused("eval", "loss");
  EXPECT_THAT(run_kolo({"predict", run, "none.png"}).errors, Not(HasSubstr("was trained by")));
}

TEST_F(OwnProgram, SaysHowItIsUsed) {
  EXPECT_TRUE(is_refused(run_own({"own.yaml", "-n", "2"}),
                         {"expected a command (train, eval, predict, ",
                          "got the file own.yaml; to train: own train own.yaml"}));
  EXPECT_TRUE(says(run_own({"doctor"}).errors, {"unknown command \"doctor\""}));
  EXPECT_TRUE(says(run_own({"train", "c.yaml", "--ouput=x"}).errors, {"did you mean --output?"}));
  const auto help = run_own({"train", "--help"}).output;
  EXPECT_TRUE(says(help, {"own train [OPTIONS]", "\n  own train configs/hello.yaml"}));
  EXPECT_THAT(run_own({"--help"}).output, Not(HasSubstr("kolo doctor")));
}

}  // namespace
}  // namespace kolo::testing
