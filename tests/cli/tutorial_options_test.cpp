// The options of the courses' own scripts, as kolo train takes them.
#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class TutorialOptions : public SmallRuns {
 protected:
  [[nodiscard]] std::string shown(std::vector<std::string> options) const {
    options.insert(options.begin(), {"train", config, "--show-config"});
    const auto run = run_kolo(options);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run.output;
  }
};

TEST_F(TutorialOptions, StandForSettings) {
  EXPECT_TRUE(says(shown({"--bucket_cap_mb", "7.5"}), {"bucket_mb: 7.5\n"}));
  EXPECT_TRUE(says(shown({"--amp_mode", "bf16"}), {"precision: bf16\n"}));
  EXPECT_TRUE(says(shown({"--amp_mode", "none"}), {"precision: fp32\n"}));
  EXPECT_TRUE(says(shown({"--enable_amp"}), {"precision: bf16\n"}));
  EXPECT_TRUE(says(shown({"--optimizer", "name=SGD,lr=0.25,lr_scaling=sqrt,lr_warmup_epochs=5"}),
                   {"name: sgd\n", "lr: 0.25\n", "lr_scaling: sqrt\n", "lr_warmup_epochs: 5\n"}));
  const std::string box =
      "data={name: nbody, train_path: a, valid_path: b, n_train: 1, n_valid: 1}";
  const std::vector<std::string> fields = {"model.name=unet3d", "training.loss=l1", box};
  for (const auto& [given, mode] :
       {std::pair("inmem", "inmem"), std::pair("dali-lowmem", "lowmem")}) {
    auto options = fields;
    options.insert(options.end(), {"--data_loader_config", given});
    EXPECT_TRUE(says(shown(options), {std::string("mode: ") + mode + "\n"}));
  }
}

TEST_F(TutorialOptions, SayWhatToDoInstead) {
  for (const auto& [option, instead] :
       {std::pair("-d", "several ranks always work together"),
        std::pair("--enable_apex", "optimizers are fused in any case; leave it out"),
        std::pair("--enable_manual_profiling", "use --timeline"),
        std::pair("--noddp", "kolo bench --profile"),
        std::pair("--enable_benchy", "kolo bench FILE"),
        std::pair("--interactive", "kolo eval RUN"),
        std::pair("--run_num=01", "--run_num: runs are told apart")}) {
    const auto refused = train({option});
    EXPECT_EQ(refused.exit_code, 2) << option;
    EXPECT_TRUE(says(refused.errors, {instead})) << option;
  }
  EXPECT_TRUE(says(run_kolo({"train", "--yaml_config", "a.yaml"}).errors,
                   {"train: --yaml_config: the configuration's file"}));
  EXPECT_TRUE(says(train({"--data_loader_config", "dali"}).errors, {"--data_loader_config: "}));
}

TEST_F(TutorialOptions, MoreThreadsThanProcessorsAreCut) {
  const auto run = run_kolo({"train", config, "--output", folder / "run", "training.n_epochs=1",
                             "device.intra_threads=1024"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_TRUE(says(run.output, {"device.intra_threads: 1024 are more threads than there are"}));
}

}  // namespace
}  // namespace kolo::testing
