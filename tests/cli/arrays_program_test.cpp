// data.name: arrays, through the program: a network learns samples that are files of .npy.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include <torch/script.h>
#include <nlohmann/json.hpp>

#include "cli/background.h"
#include "cli/program.h"
#include "data/array_files.h"
#include "kolo/base/file.h"
#include "kolo/train/observe/history.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class ArraysProgram : public ::testing::Test {
 protected:
  ArraysProgram() {
    write("train", 256);
    write("valid", 64);
  }
  // targets: the sum and the difference of two inputs.
  void write(const std::string& split, std::int64_t samples) const {
    std::vector<float> inputs, targets;
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto a = static_cast<float>(std::sin(static_cast<double>(i)));
      const auto b = static_cast<float>(std::cos(3 * static_cast<double>(i)));
      inputs.insert(inputs.end(), {a, b});
      targets.insert(targets.end(), {a + b, a - b});
    }
    write_array(split + "/inputs", {samples, 2}, inputs);
    write_array(split + "/targets", {samples, 2}, targets);
  }
  void write_array(const std::string& name, std::vector<std::int64_t> shape,
                   const std::vector<float>& numbers) const {
    folder_.write(name + ".npy", npy_array(shape, numbers));
  }
  // field [2, 3] and parameters [2]: to be learnt are the parameters times the field's sum.
  void write_two_inputs(const std::string& split, std::int64_t samples) const {
    std::vector<float> field, parameters, products;
    for (std::int64_t i = 0; i < samples; ++i) {
      float sum = 0;
      for (int k = 0; k < 6; ++k) {
        field.push_back(static_cast<float>(std::sin(static_cast<double>(5 * i + k))));
        sum += field.back();
      }
      for (const double factor : {.7, 1.3}) {
        parameters.push_back(static_cast<float>(std::cos(factor * static_cast<double>(i))));
        products.push_back(sum * parameters.back());
      }
    }
    write_array(split + "/field", {samples, 2, 3}, field);
    write_array(split + "/parameters", {samples, 2}, parameters);
    write_array(split + "/products", {samples, 2}, products);
    write_array(split + "/copies", {samples, 2}, products);
  }
  // Gives its second input times a weighted sum of the first, [N, 1, 2, 3].
  [[nodiscard]] std::string write_script() const {
    torch::manual_seed(1);
    torch::jit::Module script("Product");
    script.register_attribute("training", c10::BoolType::get(), true);
    script.register_parameter("weight", torch::randn({1, 6}, torch::requires_grad()), false);
    script.define(
        "def forward(self, field, parameters):\n"
        "  return torch.linear(field.view(-1, 6), self.weight) * parameters\n");
    script.save(path("product.pt"));
    return path("product.pt");
  }
  [[nodiscard]] std::vector<std::string> with_script() const {
    return {"optimizer.lr=0.1", "data.inputs=[field, parameters]", "data.targets=[products]",
            "model={name: torchscript, file: " + write_script() + "}"};
  }
  [[nodiscard]] ProcessResult train(const std::string& run,
                                    const std::vector<std::string>& settings) {
    return run_kolo(joined({"train", config_, "--output", path(run)}, settings));
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  TemporaryFolder folder_;
  std::string config_ =
      folder_.write("own.yaml", "data: {name: arrays, train_path: " + path("train") +
                                    ", valid_path: " + path("valid") +
                                    "}\n"
                                    "model: {name: mlp, hidden: []}\n"
                                    "optimizer: {name: adam, lr: 0.02, lr_scaling: none}\n"
                                    "training: {batch_size: 16, n_epochs: 20, loss: mse}\n");
};

TEST_F(ArraysProgram, ANetworkLearnsNumbersOfOnesOwn) {
  ASSERT_TRUE(succeeds(run_kolo({"train", config_, "--output", path("run"), "-n", "2"}),
                       {"data arrays: 256 training and 64 validation samples"}));
  EXPECT_LT(History::read(folder_ / "run" / "history.json").epochs().back().val_loss, 1e-2);
}

TEST_F(ArraysProgram, ErrorsAreToldOfEachTarget) {
  for (const auto& [split, samples] : {std::pair("train", 64), {"valid", 16}}) {
    write_two_inputs(split, samples);
    write_array(std::string(split) + "/constant", {samples},
                std::vector<float>(static_cast<std::size_t>(samples), 3));
  }
  ASSERT_TRUE(succeeds(train("run", {"data.inputs=[field, parameters]",
                                     "data.targets=[products, constant]", "training.n_epochs=1"})));
  EXPECT_TRUE(succeeds(run_kolo({"eval", path("run")}), {"MAE ", "RMSE ", "R2 ", "products[1]",
                                                         "R2 is - where all targets are equal"}));
  const auto eval = [&](const std::vector<std::string>& ranks) {
    return json_of(joined({"eval", path("run")}, ranks));
  };
  const auto one = eval({}), three = eval({"-n", "3", "--oversubscribe"});
  EXPECT_NEAR(std::pow(one["rmse"].get<double>(), 2), one["loss"].get<double>(), 1e-4);
  const auto &targets = one["targets"], &same = three["targets"];
  ASSERT_EQ(targets.size(), 3U);
  EXPECT_EQ(targets[0]["name"], "products[0]");
  EXPECT_EQ(targets[2]["name"], "constant");
  EXPECT_TRUE(targets[2]["r2"].is_null());
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(targets[i]["mae"].get<double>(), same[i]["mae"].get<double>(), 1e-5);
  EXPECT_NEAR(targets[1]["r2"].get<double>(), same[1]["r2"].get<double>(), 1e-5);
  EXPECT_NEAR(one["r2"].get<double>(), three["r2"].get<double>(), 1e-5);
}

TEST_F(ArraysProgram, AScriptOfSeveralInputsLearnsFromAsManyArrays) {
  write_two_inputs("train", 64);
  write_two_inputs("valid", 16);
  auto settings = joined(with_script(), {"-n", "2", "training.n_epochs=10"});
  ASSERT_TRUE(
      succeeds(train("whole", settings), {"data arrays: 64 training and 16 validation samples"}));
  const auto history = History::read(folder_ / "whole" / "history.json");
  EXPECT_LT(history.epochs().back().val_loss, .2 * history.epochs().front().val_loss);

  // The file has both inputs again.
  auto trained = torch::jit::load(path("whole/model.pt"));
  const auto output = trained.forward({torch::ones({1, 1, 2, 3}), torch::full({1, 2}, 3.F)});
  const auto weight = trained.attr("weight").toTensor();
  EXPECT_TRUE(output.toTensor().allclose(3 * weight.sum()));
  EXPECT_TRUE(succeeds(run_kolo({"eval", path("whole"), "-n", "2"})));
  EXPECT_TRUE(succeeds(
      run_kolo({"predict", path("whole"), path("valid"), "-o", path("products.csv"), "-n", "2"})));
  const auto table = read_text_file(path("products.csv"));
  EXPECT_TRUE(says(table, {"products[0],products[1]\n"}));
  EXPECT_EQ(std::ranges::count(table, '\n'), 1 + 16);

  // One that is stopped and goes on comes to the same bits.
  auto half = settings;
  half.back() = "training.n_epochs=5";
  ASSERT_EQ(train("parts", half).exit_code, 0);
  ASSERT_TRUE(succeeds(train("parts", joined(settings, {"--resume"}))));
  EXPECT_TRUE(
      torch::equal(weight, torch::jit::load(path("parts/model.pt")).attr("weight").toTensor()));
}

TEST_F(ArraysProgram, WhatAScriptDoesNotTakeIsSaidBeforeAnythingStarts) {
  write_two_inputs("train", 64);
  write_two_inputs("valid", 16);
  const auto refusal = [&](const std::vector<std::string>& more) {
    const auto run = train("run", joined(joined(with_script(), {"-n", "2"}), more));
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_EQ(std::ranges::count(run.errors, '\n'), 1) << run.errors;
    EXPECT_FALSE(std::filesystem::exists(path("run")));
    return run.errors;
  };
  EXPECT_TRUE(
      says(refusal({"data.inputs=[field]"}), {"product.pt: forward takes 2 tensors, but got 1"}));
  EXPECT_TRUE(says(refusal({"data.inputs=[parameters, field]"}), {"does not work on [2, 2]"}));
  EXPECT_TRUE(says(refusal({"data.inputs=[field, temperature]"}),
                   {"data.train_path: ", "has no temperature"}));
  EXPECT_TRUE(
      says(refusal({"data.inputs=[field, field]"}), {"data.inputs: field stands there twice"}));
  EXPECT_TRUE(says(refusal({"data.targets=[products, copies]"}), {"expected [2, 2], [2, 2]"}));
  EXPECT_TRUE(says(refusal({"data.valid_path=" + path("nowhere")}),
                   {"data.valid_path: ", "does not exist"}));
}

TEST_F(ArraysProgram, AreInspected) {
  const auto inspected = [](const std::string& file) {
    const auto run = run_kolo({"data", "inspect", file});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run.output;
  };
  EXPECT_TRUE(says(inspected(path("train")), {"samples of arrays", "inputs", "targets", "256"}));
  EXPECT_THAT(inspected(folder_.write("empty.npy", npy_array<float>({0, 3}, {}))),
              AllOf(HasSubstr("0 x 3"), Not(HasSubstr("inf")), Not(HasSubstr("nan"))));
}

// In any other order at most half of the labels would match their files.
TEST_F(ArraysProgram, FilesAreMatchedWithLabelsInNaturalOrder) {
  std::vector<std::uint8_t> labels;
  for (int i = 0; i < 40; ++i) {
    std::vector<float> numbers(4, 0);
    numbers[static_cast<std::size_t>(i % 4)] = 1;
    write_array("files/inputs/" + std::to_string(i), {4}, numbers);
    labels.push_back(static_cast<std::uint8_t>(i % 4));
  }
  folder_.write("files/labels.npy", npy_array({40}, labels));
  const auto run =
      train("run", {"data.train_path=" + path("files"), "data.valid_path=" + path("files"),
                    "training.loss=cross_entropy", "optimizer.lr=0.1"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(History::read(folder_ / "run" / "history.json").epochs().back().val_accuracy, 1);
  const auto inspected = run_kolo({"data", "inspect", path("files")});
  for (const auto& text : {run.output + run.errors, inspected.output})
    EXPECT_TRUE(says(text, {"natural order", "2.npy"}));
}

// Training and inspection say the same of files that can't be read.
TEST_F(ArraysProgram, OddHdf5IsToldBeforeAnythingStarts) {
  const auto file = path("odd.h5");
  const std::vector<float> numbers(16, 1);
  const auto write_odd = [&](const std::string& inputs, const std::vector<float>* values) {
    write_hdf5(file, [&](hid_t made) {
      for (const auto& name : {inputs, std::string("targets")})
        write_hdf5_field(made, {.name = name, .shape = {8, 2}, .values = values});
    });
  };
  write_odd("inputs", nullptr);
  const auto run = train("run", {"data.train_path=" + file});
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_FALSE(std::filesystem::exists(path("run")));
  const auto inspected = run_kolo({"data", "inspect", file});
  EXPECT_EQ(inspected.exit_code, 2);
  for (const auto& errors : {run.errors, inspected.errors})
    EXPECT_TRUE(says(errors, {"inputs of " + file, "ever written"}));

  // Arrays of other names are listed.
  write_odd("field", &numbers);
  EXPECT_TRUE(succeeds(run_kolo({"data", "inspect", file}),
                       {"HDF5 file", "field      8 x 2 of float32", "inputs: [field]"}));
  // A user block comes first, as MATLAB writes one.
  const auto bytes = read_text_file(file);
  folder_.write("odd.h5", std::string(512, ' ') + bytes);
  EXPECT_TRUE(says(run_kolo({"data", "inspect", file}).output, {"field      8 x 2 of float32"}));
}

TEST_F(ArraysProgram, NumbersBeyondFloat32AreCalledThat) {
  folder_.write("large/inputs.npy", npy_array<double>({2, 1}, {1, 1e300}));
  write_array("large/targets", {2}, {1, 2});
  const auto inspected = run_kolo({"data", "inspect", path("large")});
  EXPECT_THAT(inspected.output, AllOf(HasSubstr("1e+300"), HasSubstr("1 beyond float32"),
                                      Not(HasSubstr("not finite"))));
  const auto run =
      train("run", {"data.train_path=" + path("large"), "data.valid_path=" + path("large")});
  EXPECT_TRUE(ends_with(run, 1, {"sample 1 holds 1e+300", "float32"}));
}

}  // namespace
}  // namespace kolo::testing
