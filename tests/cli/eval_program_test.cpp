// kolo eval, end to end through the binary.
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "kolo/base/file.h"
#include "kolo/report/run_record.h"
#include "kolo/train/observe/history.h"
#include "support/cifar10_files.h"
#include "support/idx_files.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// A run of two epochs, trained once for all tests.
class EvalProgram : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = std::make_unique<TemporaryFolder>();
    write_small_mnist(*folder / "data", 400, 101);
    const auto config = folder->write(
        "small.yaml", "data: {name: mnist, path: " + (*folder / "data").string() +
                          "}\n"
                          "model: {name: mnist_net}\n"
                          "optimizer: {name: adam, lr: 0.002}\n"
                          "training: {batch_size: 16, n_epochs: 2, metrics: [accuracy, "
                          "top_k_categorical_accuracy]}\n");
    trained = run_kolo({"train", config, "--output", (*folder / "run").string()});
  }
  static void TearDownTestSuite() { folder.reset(); }

  void SetUp() override { ASSERT_EQ(trained.exit_code, 0) << trained.errors; }

  static ProcessResult eval(const std::vector<std::string>& arguments) {
    return run_kolo(joined({"eval"}, arguments));
  }
  static std::string run() { return (*folder / "run").string(); }

  static nlohmann::json eval_json(const std::vector<std::string>& arguments) {
    return json_of(joined({"eval"}, arguments));
  }

  static inline std::unique_ptr<TemporaryFolder> folder;
  static inline ProcessResult trained;
};

TEST_F(EvalProgram, SaysWhatTheTrainingSaid) {
  const auto history = History::read(*folder / "run" / "history.json");
  const auto json = eval_json({run(), "--checkpoint", "newest"});
  const auto& last = history.epochs().back();
  EXPECT_EQ(json["samples"], 101);
  EXPECT_EQ(json["epoch"], 2);
  EXPECT_NEAR(json["loss"].get<double>(), last.val_loss, 1e-6);
  EXPECT_DOUBLE_EQ(json["accuracy"].get<double>(), last.val_accuracy);
  EXPECT_DOUBLE_EQ(json["top_5_accuracy"].get<double>(), last.val_top_accuracy);

  std::int64_t all = 0, right = 0;
  for (std::size_t row = 0; row < 10; ++row) {
    for (std::size_t column = 0; column < 10; ++column)
      all += json["confusion_matrix"][row][column].get<std::int64_t>();
    right += json["confusion_matrix"][row][row].get<std::int64_t>();
  }
  EXPECT_EQ(all, 101);
  EXPECT_EQ(right, std::llround(last.val_accuracy * 101));
  // A checkpoint may be named as well.
  EXPECT_EQ(eval_json({json["checkpoint"].get<std::string>() + "/"}), json);
}

TEST_F(EvalProgram, ShowsHowFarItIs) {
  ASSERT_TRUE(succeeds(run_kolo({"eval", run()}, {{"KOLO_TERMINAL", "80 ascii"}}),
                       {"\rvalidation ", "0/1"}));
}

TEST_F(EvalProgram, TheNumbersAreTheSameForAnyRanks) {
  auto one = eval_json({run()});
  auto many = eval_json({run(), "-n", "3", "--oversubscribe"});
  EXPECT_EQ(many["n_ranks"], 3);
  EXPECT_NEAR(many["loss"].get<double>(), one["loss"].get<double>(), 1e-6);
  for (auto* json : {&one, &many}) {
    json->erase("n_ranks");
    json->erase("loss");
  }
  EXPECT_EQ(many, one);
}

TEST_F(EvalProgram, PrintsTablesForPeople) {
  EXPECT_TRUE(succeeds(eval({run(), "--data", "training"}),
                       {"training data, 400 samples, 1 rank", "accuracy", "top 5", "mistaken for",
                        "Confusion matrix"}));
}

TEST_F(EvalProgram, ClassesHaveTheNamesThatTheRunRecorded) {
  const auto named = *folder / "named";
  std::filesystem::copy(run(), named, std::filesystem::copy_options::recursive);
  auto record = nlohmann::json::parse(read_text_file(named / "run.json"));
  EXPECT_FALSE(record.contains("class_names")) << "digits have none";
  record["class_names"] = {"zero", "one", "two",   "three", "four",
                           "five", "six", "seven", "eight", "nine"};
  write_file(named / "run.json", record.dump());
  EXPECT_EQ(eval_json({named.string()})["classes"][3]["name"], "three");
  for (const auto* const damaged : {"{", R"({"starts": [{"own_parts": 3}]})"}) {
    write_file(named / "run.json", damaged);
    EXPECT_EQ(eval_json({named.string()})["classes"][3]["name"], "3");
  }
}

TEST_F(EvalProgram, LongNamesAreRecordedAndFit80Columns) {
  const auto data = *folder / "photographs";
  write_small_cifar10(data, 4);
  std::string names;
  for (int i = 0; i < 10; ++i) names += "t_shirt_top" + std::to_string(i) + "\n";
  write_file(data / "batches.meta.txt", names);
  const auto config =
      folder->write("photographs.yaml", "data: {name: cifar10, path: " + data.string() +
                                            "}\nmodel: {name: cnn}\noptimizer: {name: adam}\n"
                                            "training: {batch_size: 4, n_epochs: 1}\n");
  const auto place = (*folder / "of_photographs").string();
  ASSERT_EQ(run_kolo({"train", config, "--output", place}).exit_code, 0);
  const auto record = nlohmann::json::parse(read_text_file(place + "/run.json"));
  EXPECT_EQ(record["class_names"][9], "t_shirt_top9");
  const auto text = eval({place}).output;
  EXPECT_TRUE(says(text, {"\n9 t_shirt_top9 ", "Confusion matrix"}));
  std::istringstream lines(text.substr(text.find("validation data")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST_F(EvalProgram, DrawsSamples) {
  const auto pictures = *folder / "run" / "pictures";
  EXPECT_TRUE(succeeds(eval({run(), "--pictures", pictures.string()}),
                       {"pictures: 12 in " + pictures.string()}));
  EXPECT_TRUE(is_drawing(pictures / "sample-000000.png"));
  // Another evaluation's pictures take their place.
  EXPECT_TRUE(succeeds(
      eval({run(), "--pictures", pictures.string(), "--data=training", "data.n_train=7"})));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(pictures), {}), 7);
  // A report shows them, in a page that still needs nothing but itself.
  const auto page = (*folder / "report.html").string();
  ASSERT_EQ(run_kolo({"report", run(), "-o", page}).exit_code, 0);
  EXPECT_TRUE(says(read_text_file(page), {"\"Predictions\"", "iVBORw0KGgo"}));

  // Other files are kept.
  write_file(pictures / "sample-7.png", "mine");
  EXPECT_TRUE(
      is_refused(eval({run(), "--pictures", pictures.string()}), {"was not drawn by kolo"}));
  EXPECT_EQ(read_text_file(pictures / "sample-7.png"), "mine");
}

TEST_F(EvalProgram, RefusesWhatItCantMeasure) {
  for (const auto& [arguments, words] : {std::pair<std::vector<std::string>, std::string>{
                                             {folder->path().string()}, "neither a run"},
                                         {{(*folder / "nothing").string()}, "neither a run"},
                                         {{run(), "model.name=mnist_cnn"}, "another model"},
                                         {{run(), "data.path=/nowhere"}, "/nowhere"},
                                         {{run(), "--checkpoint", "worst"}, "worst"}}) {
    EXPECT_TRUE(is_refused(eval(arguments), {words}));
  }
}

TEST_F(EvalProgram, RefusesADamagedCheckpointInItsOwnWords) {
  std::filesystem::copy(run(), *folder / "damaged", std::filesystem::copy_options::recursive);
  const auto newest = eval_json({(*folder / "damaged").string(), "--checkpoint", "newest"});
  const std::filesystem::path checkpoint = newest["checkpoint"].get<std::string>();
  for (const auto* const manifest : {"", "null", "{", "{\"format\": null}"}) {
    write_file(checkpoint / "manifest.json", manifest);
    const auto result = eval({checkpoint.string()});
    EXPECT_TRUE(is_refused(result, {checkpoint.string(), "malformed"})) << manifest;
    EXPECT_FALSE(says(result.errors, {"exception"}));
  }
  // No other one is taken in its place.
  for (const std::string choice : {"newest", "best"}) {
    EXPECT_TRUE(is_refused(eval({(*folder / "damaged").string(), "--checkpoint", choice}),
                           {"can't be told", checkpoint.string(), "malformed"}));
  }
}

}  // namespace
}  // namespace kolo::testing
