// model.init_from and model.freeze: a run that begins with another one's weights.
#include <torch/script.h>

#include "cli/small_runs.h"
#include "kolo/train/checkpoint/safetensors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// A rate that changes no weight, so that a run ends with those that it began with.
constexpr auto no_change = "optimizer.lr=1e-30";

class FineTuning : public SmallRuns {
 protected:
  FineTuning() { have_run({"training.n_epochs=1"}, "first"); }
  [[nodiscard]] std::string from_first() const {
    return "model.init_from=" + (folder / "first").string();
  }
  [[nodiscard]] std::map<std::string, torch::Tensor> weights(const std::string& output) const {
    std::map<std::string, torch::Tensor> result;
    for (const auto& item : newest(output).content.model) result[item.name] = item.tensor;
    return result;
  }
};

TEST_F(FineTuning, BeginsWithTheWeightsOfARunACheckpointOrAFile) {
  const auto step = newest("first").path;
  for (const auto& [number, source] : std::vector<std::pair<std::string, std::string>>{
           {"1", folder / "first"}, {"2", step}, {"3", step / "model.safetensors"}}) {
    const auto run = train({"model.init_from=" + source, "-n", number == "2" ? "2" : "1",
                            "training.n_epochs=1", no_change},
                           number);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_THAT(run.output, AllOf(HasSubstr("first weights from " + step.string()),
                                  HasSubstr(": 8 of 8 tensors"), Not(HasSubstr("from the seed"))));
    const auto expected = weights("first"), found = weights(number);
    ASSERT_EQ(found.size(), 8U);
    for (const auto& [name, value] : found) EXPECT_TRUE(value.equal(expected.at(name))) << name;
  }
}

// Goes on from its own checkpoints, also where the weights that it began with are gone.
TEST_F(FineTuning, ResumesWithoutTheFileThatItBeganWith) {
  ASSERT_EQ(train({from_first(), "training.n_epochs=2"}, "whole").exit_code, 0);
  copy("whole", "run");
  std::filesystem::remove_all(checkpoint(50).parent_path());
  std::filesystem::remove_all(folder / "first");
  const auto rest = train({from_first(), "training.n_epochs=2", "--resume"});
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_FALSE(says(rest.output, {"first weights from"}));
  const auto expected = weights("whole");
  for (const auto& [name, value] : weights("run")) EXPECT_TRUE(value.equal(expected.at(name)));
}

// An earlier run's folder would be moved aside before the new run has read what is in it.
TEST_F(FineTuning, ReadsNothingInAFolderThatItWouldMoveAside) {
  const auto run = folder / "first";
  std::filesystem::copy(data(), run / "data", std::filesystem::copy_options::recursive);
  std::filesystem::create_directory_symlink(run / "data", folder / "link");
  const auto expect_refused = [&](const std::vector<std::string>& more, const std::string& key) {
    const auto result = train(more, "first");
    EXPECT_TRUE(is_refused(result, {key, "is in the output folder " + run.string(), "--output"}));
    EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(folder / "first.1"));
    EXPECT_TRUE(std::filesystem::exists(run / "history.json"));
  };
  for (const auto* const ranks : {"1", "2"}) {
    expect_refused({from_first(), "-n", ranks}, "model.init_from: ");
    for (const auto& path : {run / "data", folder / "link"})
      expect_refused({"data.path=" + path.string(), "-n", ranks}, "data.path: ");
  }
  const auto result = run_kolo({"train", run / "config.yaml", "-o", run, "-n", "2"});
  EXPECT_TRUE(is_refused(result, {"config.yaml is in the output folder", "copy the file"}));
  EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
}

TEST_F(FineTuning, TrainsAnotherNumberOfClassesOnFrozenLayers) {
  ASSERT_TRUE(succeeds(train({from_first(), "model.n_classes=12", "model.freeze=[conv1, conv2]",
                              "training.n_epochs=2", "-n", "2"}),
                       {": 6 of 8 tensors",
                        "of another shape there, and so from the seed: fc2.weight [10, 50] "
                        "instead of [12, 50], fc2.bias [10] instead of [12]",
                        "of them trained"}));
  const auto before = weights("first"), after = weights("run");
  for (const auto& [name, value] : after) {
    const bool is_frozen = name.starts_with("conv");
    if (is_frozen || name.starts_with("fc1")) {
      EXPECT_EQ(value.equal(before.at(name)), is_frozen) << name;
    }
  }
  EXPECT_EQ(after.at("fc2.weight").size(0), 12);
  for (const auto& item : newest().content.optimizer) EXPECT_FALSE(item.name.starts_with("conv"));

  ASSERT_TRUE(succeeds(train({from_first(), "model.n_classes=12", "model.freeze=[conv1, conv2]",
                              "training.n_epochs=3", "--resume"})));
  EXPECT_TRUE(
      is_refused(train({from_first(), "model.n_classes=12", "training.n_epochs=4", "--resume"}),
                 {"no state of the optimizer for conv1.weight", "model.init_from"}));
}

TEST_F(FineTuning, SaysWhatIsMissingAndWhatIsTooMuch) {
  const auto file = (folder / "other.safetensors").string();
  const auto bias = torch::full({10}, .25);
  write_safetensors(file, std::vector<NamedTensor>{{"fc2.bias", bias}, {"head.bias", bias}});
  ASSERT_TRUE(succeeds(train({"model.init_from=" + file, "training.n_epochs=1", no_change}),
                       {": 1 of 8 tensors", "not there, and so from the seed: conv1.weight, ",
                        "there, but not in the network: head.bias"}));
  EXPECT_TRUE(weights("run").at("fc2.bias").equal(bias));
}

TEST_F(FineTuning, WhatFitsNothingIsRefusedBeforeAnythingStarts) {
  const auto strange = (folder / "strange.safetensors").string();
  write_safetensors(strange, std::vector<NamedTensor>{{"head.bias", torch::zeros({10})}});
  const auto expect_refused = [&](const std::string& source, const std::string& words) {
    EXPECT_TRUE(is_refused(train({"model.init_from=" + source}),
                           {"command line: model.init_from: ", words}));
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  expect_refused(strange, "no parameter that fits the network by name and shape: it has head.bias");
  expect_refused(folder / "nothing", "does not exist");
  expect_refused(config, "small.yaml");
  expect_refused(data(), "neither a run's folder");
  EXPECT_TRUE(says(train({"model.init_from=no/where"}).errors,
                   {"no/where does not exist in the current folder, " +
                    std::filesystem::current_path().string()}));
  EXPECT_TRUE(is_refused(train({"model.freeze=[convolution1]"}),
                         {"model.freeze: the network has no module or parameter"}));
}

// Weights as others publish them: a message says what they are, and how kolo can take them.
TEST_F(FineTuning, FilesOfOtherProgramsAreToldByName) {
  using namespace std::string_literals;
  torch::jit::Module script("net");
  script.register_parameter("w", torch::zeros({2}), false);
  script.define("def forward(self, x):\n  return x + self.w\n");
  script.save((folder / "script.pt").string());
  const auto old =
      folder.write("old.pth", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"s);
  const auto pointer = folder.write(
      "lfs.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  const auto index = folder.write("face/model.safetensors.index.json",
                                  R"({"metadata": {"total_size": 8}, "weight_map": {"w": "m"}})");
  const std::string advice = "safetensors.torch.save_file(";
  for (const auto& [source, said, more] :
       {std::tuple(old, "old.pth is no file of safetensors: it is a PyTorch checkpoint", advice),
        {folder / "script.pt", "it is a TorchScript archive", advice},
        {index, "model.safetensors.index.json is no file of safetensors", advice},
        {pointer, "it is a Git LFS pointer", "git lfs pull"},
        {index.parent_path(), "face is neither a run's folder", "manifest.json"}}) {
    EXPECT_TRUE(is_refused(train({"model.init_from=" + source.string()}), {said, more}));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

// A file with a bias of ten numbers, and one tensor of a type that can't be read.
TEST_F(FineTuning, TensorsOfOtherTypesMatterOnlyWhereTheNetworkHasThem) {
  const auto file = [&](const std::string& name) {
    auto header = R"({"fc2.bias":{"dtype":"F32","shape":[10],"data_offsets":[0,40]},")" + name +
                  R"(":{"dtype":"F8_E4M3","shape":[50],"data_offsets":[40,90]}})";
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    return folder.write(name + ".safetensors", bytes + header + std::string(90, '\0')).string();
  };
  ASSERT_TRUE(succeeds(train({"model.init_from=" + file("scales"), "training.n_epochs=1"}),
                       {": 1 of 8 tensors", "there, but not in the network: scales"}));
  EXPECT_TRUE(is_refused(train({"model.init_from=" + file("fc1.bias")}, "wanted"),
                         {"fc1.bias, which the network has, is of the type "
                          "F8_E4M3",
                          "save it as float32"}));
}

}  // namespace
}  // namespace kolo::testing
