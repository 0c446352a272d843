// Predictions of images and arrays, compared with evaluations and with the network itself.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/comm/threads.h"
#include "kolo/data/array_file.h"
#include "kolo/data/dataset.h"
#include "kolo/data/image.h"
#include "kolo/run/evaluate_run.h"
#include "kolo/run/predict_run.h"
#include "support/errors.h"
#include "support/idx_files.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::Pointwise;

class PredictSamples : public ::testing::Test {
 protected:
  void train(const std::string& data, const std::string& rest,
             const RunComponents& components = {}) {
    const auto config = folder_.write(
        "config.yaml", fmt::format("data: {{{}}}\n{}\ndevice: {{intra_threads: 1}}\n", data, rest));
    ASSERT_EQ(kolo::run(ConfigSource{config, {}, {}, {}, folder_ / "run"}, components, options()),
              0);
  }

  [[nodiscard]] RunOptions options() {
    return {.console = &console_, .stop_requested = [] { return false; }};
  }

  [[nodiscard]] PredictionRequest request(const fs::path& input, const std::string& output = "") {
    PredictionRequest request{.run = folder_ / "run", .input = input};
    request.overrides = {"training.validation_batch_size=4"};
    if (!output.empty()) request.output = folder_ / output;
    return request;
  }

  PredictedSamples predict(const PredictionRequest& request, int ranks = 1,
                           const RunComponents& components = {}) {
    PredictedSamples samples;
    run_as_threads(ranks, [&](const Communicator& communicator) {
      auto mine = options();
      mine.communicator = communicator;
      const auto take = [&](const RunPrediction& prediction) {
        samples = std::get<PredictedSamples>(prediction.what);
      };
      EXPECT_EQ(predict_run(request, take, components, mine), 0);
    });
    return samples;
  }

  [[nodiscard]] static std::string refusal(const PredictionRequest& request) {
    return message_of<InputError>([&] { (void)check_prediction(request); });
  }

  // Outputs that an evaluation makes of the first samples of the validation.
  std::vector<SampleOutput> evaluated(std::int64_t samples) {
    std::vector<SampleOutput> outputs;
    EvaluationRequest request{.path = folder_ / "run"};
    request.samples = samples;
    const auto take = [&](const RunEvaluation& evaluation) { outputs = evaluation.samples; };
    EXPECT_EQ(evaluate_run(request, take, {}, options()), 0);
    return outputs;
  }

  void write_array(const std::string& name, const std::vector<std::int64_t>& shape) const {
    std::int64_t count = 1;
    for (const auto length : shape) count *= length;
    std::mt19937 random(static_cast<unsigned>(name.size()));
    std::normal_distribution<float> normal;
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (auto& number : numbers) number = normal(random);
    std::string bytes(numbers.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    folder_.write(name + ".npy", npy_header_bytes(shape) + bytes);
  }

  // Pictures whose brightness tells the class, of a size other than the network's.
  void write_pictures(const std::string& folder) const {
    for (int i = 0; i < 4; ++i) {
      for (const auto& [name, brightness] : {std::pair("cat", 60), {"dog", 180}}) {
        Image image{10, 12, {}};
        for (int pixel = 0; pixel < 10 * 12 * 3; ++pixel)
          image.pixels.push_back(static_cast<std::uint8_t>(brightness + 10 * i + pixel % 7));
        const auto jpeg = encode_jpeg(image, 90);
        folder_.write(fmt::format("{}/{}/{}.jpg", folder, name, i),
                      {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
      }
    }
  }

  void train_on_pictures(const std::string& loss = "cross_entropy") {
    write_pictures("pictures/train");
    write_pictures("pictures/valid");
    const auto root = (folder_ / "pictures").string();
    train(fmt::format("name: imagenet, train_dir: {0}/train, valid_dir: {0}/valid, "
                      "input_shape: [8, 8, 3], preprocessing: unit",
                      root),
          fmt::format("model: {{name: mlp, hidden: [8]}}\noptimizer: {{name: adam, lr: 0.01}}\n"
                      "training: {{batch_size: 4, n_epochs: 2, loss: {}}}",
                      loss));
  }

  void train_on_arrays(const std::string& more = "") {
    write_array("data/inputs", {22, 3});
    write_array("data/speed", {22});
    write_array("data/place", {22, 2});
    train(fmt::format("name: arrays, train_path: {0}, valid_path: {0}, divisor: 2{1}",
                      (folder_ / "data").string(), more),
          "model: {name: mlp, hidden: [8]}\noptimizer: {name: sgd, lr: 0.01}\n"
          "training: {batch_size: 4, n_epochs: 1, loss: mse}");
  }

  TemporaryFolder folder_;
  std::ostringstream console_;
};

TEST_F(PredictSamples, GivesImagesTheProbabilitiesOfAnEvaluation) {
  train_on_pictures();
  const auto expected = evaluated(8);
  fs::rename(folder_ / "pictures" / "valid", folder_ / "new");
  fs::remove_all(folder_ / "pictures");  // its data is not needed
  folder_.write("new/notes.txt", "no image");
  const auto samples = predict(request(folder_ / "new"));
  EXPECT_THAT(samples.columns, ElementsAre("cat", "dog"));
  EXPECT_TRUE(samples.has_classes && samples.has_files);
  ASSERT_THAT(samples.first, SizeIs(8));
  EXPECT_EQ(samples.first[4].name, "dog/0.jpg");
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_THAT(samples.first[i].values, Pointwise(FloatNear(1e-6F), expected[i].output.values));
  ASSERT_THAT(samples.warnings, SizeIs(1));
  EXPECT_TRUE(says(samples.warnings[0], {"1 file left out, such as notes.txt"}));

  fs::rename(folder_ / "new" / "dog" / "3.jpg", folder_ / "photo");  // told by its content
  const auto alone = predict(request(folder_ / "photo"));
  ASSERT_THAT(alone.first, SizeIs(1));
  EXPECT_EQ(alone.first[0].name, "photo");
  EXPECT_THAT(alone.first[0].values, Pointwise(FloatNear(1e-6F), expected[7].output.values));
}

TEST_F(PredictSamples, WritesTheSameForEachNumberOfRanks) {
  train_on_pictures();
  const auto input = folder_ / "pictures" / "valid";
  const auto written = [&](const std::string& output, int ranks) {
    auto wanted = request(input, output);
    wanted.overrides = {"training.validation_batch_size=3"};
    wanted.replaces = true;
    EXPECT_TRUE(predict(wanted, ranks).first.empty());
    return read_text_file(wanted.output);
  };
  for (const std::string output : {"classes.csv", "classes.json", "classes.npy", "classes.h5"}) {
    const auto alone = written(output, 1);
    EXPECT_EQ(written(output, 2), alone) << output;
    EXPECT_EQ(written(output, 4), alone) << output << ", one rank has nothing";
  }
  const auto first = predict(request(input)).first;
  std::istringstream csv(read_text_file(folder_ / "classes.csv"));
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line, "file,class,probability,cat,dog");
  std::getline(csv, line);
  const bool is_cat = first[0].values[0] > first[0].values[1];
  EXPECT_THAT(line, StartsWith(is_cat ? "cat/0.jpg,cat," : "cat/0.jpg,dog,"));
  const auto objects = nlohmann::json::parse(read_text_file(folder_ / "classes.json"));
  ASSERT_EQ(objects.size(), 8U);
  EXPECT_EQ(objects[7]["file"], "dog/3.jpg");
  EXPECT_NEAR(objects[7]["probabilities"]["dog"].get<double>(), first[7].values[1], 1e-6);
  const auto array = open_npy_array(folder_ / "classes.npy");
  EXPECT_THAT(array->layout().shape, ElementsAre(8, 2));
  std::vector<float> last(2);
  array->read(7, 1, std::span(last));
  EXPECT_THAT(last, Pointwise(FloatEq(), first[7].values));
}

TEST_F(PredictSamples, HasTwoProbabilitiesOfOneOutput) {
  train_on_pictures("binary_crossentropy");
  const auto evaluation = evaluated(8);
  const auto samples = predict(request(folder_ / "pictures" / "valid")).first;
  ASSERT_THAT(samples, SizeIs(8));
  for (std::size_t i = 0; i < 8; ++i) {
    const auto& values = samples[i].values;
    EXPECT_FLOAT_EQ(values.at(0) + values.at(1), 1) << samples[i].name;
    EXPECT_THAT(evaluation[i].output.values, Pointwise(FloatNear(1e-6F), values));
  }
}

// The files of digits that everybody has.
TEST_F(PredictSamples, TakesTheImagesOfAnIdxFile) {
  write_small_mnist(folder_ / "digits", 40, 12);
  train("name: mnist, path: " + (folder_ / "digits").string(),
        "model: {name: mlp, hidden: [8]}\noptimizer: {name: adam}\n"
        "training: {batch_size: 8, n_epochs: 1}");
  const auto expected = evaluated(12);
  const auto samples = predict(request(folder_ / "digits" / "t10k-images-idx3-ubyte"));
  EXPECT_FALSE(samples.has_files);
  ASSERT_THAT(samples.first, SizeIs(12));
  EXPECT_EQ(samples.first[11].name, "11");
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_THAT(samples.first[i].values, Pointwise(FloatNear(1e-6F), expected[i].output.values));
}

TEST_F(PredictSamples, WritesNumbersUnderTheNamesOfTheTargets) {
  train_on_arrays(", targets: [speed, place]");
  const auto expected = evaluated(22);
  fs::rename(folder_ / "data" / "inputs.npy", folder_ / "mine.npy");
  fs::remove_all(folder_ / "data");
  const auto input = folder_ / "mine.npy";
  for (const int ranks : {1, 3}) {
    const auto file = fmt::format("made{}.h5", ranks);
    (void)predict(request(input, file), ranks);
    const auto speed = open_hdf5_array(folder_ / file, "speed");
    const auto place = open_hdf5_array(folder_ / file, "place");
    EXPECT_THAT(speed->layout().shape, ElementsAre(22, 1));
    EXPECT_THAT(place->layout().shape, ElementsAre(22, 2));
    for (std::size_t i = 0; i < 22; ++i) {
      std::vector<float> numbers(3);
      speed->read(static_cast<std::int64_t>(i), 1, std::span(numbers).first(1));
      place->read(static_cast<std::int64_t>(i), 1, std::span(numbers).last(2));
      EXPECT_THAT(numbers, Pointwise(FloatNear(1e-6F), expected[i].output.values)) << i;
    }
  }
  (void)predict(request(input, "made.csv"));
  EXPECT_THAT(read_text_file(folder_ / "made.csv"), StartsWith("speed,place[0],place[1]\n"));
  (void)predict(request(input, "made.json"));
  const auto objects = nlohmann::json::parse(read_text_file(folder_ / "made.json"));
  ASSERT_EQ(objects.size(), 22U);
  EXPECT_TRUE(objects[0]["speed"].is_number());
  EXPECT_EQ(objects[0]["place"].size(), 2U);
  EXPECT_TRUE(says(refusal(request(input, "made.npy")), {"ends in .csv, .h5, .hdf5, .json"}));
}

TEST_F(PredictSamples, ShowsTheFirstOfMany) {
  train_on_arrays(", targets: [speed]");
  write_array("many", {50, 3});
  const auto samples = predict(request(folder_ / "many.npy"), 2);
  EXPECT_EQ(samples.samples, 50);
  EXPECT_THAT(samples.first, SizeIs(40));
  EXPECT_THAT(samples.columns, ElementsAre("speed"));
}

// Data of a program's own come from arrays, whatever the configuration calls them.
TEST_F(PredictSamples, PredictsForProgramsWithDataOfTheirOwn) {
  RunComponents components;
  components.datasets = [](const RunConfig&, const DataReading&) {
    const auto made = std::make_shared<RandomDataset>(SampleLayout{{3}, 0, {2}}, 8, 1);
    return Datasets{made, made};
  };
  train("name: fashion_mnist",
        "model: {name: mlp, hidden: [8]}\noptimizer: {name: sgd}\n"
        "training: {batch_size: 4, n_epochs: 1, loss: mse}",
        components);
  write_array("mine", {5, 3});
  EXPECT_THAT(predict(request(folder_ / "mine.npy"), 1, components).columns,
              ElementsAre("targets[0]", "targets[1]"));
}

TEST_F(PredictSamples, RefusesWhatItCantDo) {
  train_on_arrays(", targets: [place]");
  write_array("wide", {5, 4});
  const auto input = folder_ / "data" / "inputs.npy";
  EXPECT_TRUE(says(refusal(request(folder_ / "wide.npy")),
                   {"the samples of", "wide.npy are [4], but mlp takes [3]"}));
  EXPECT_TRUE(says(refusal(request(folder_.path())), {"has no inputs; expected inputs:"}));
  EXPECT_TRUE(says(refusal(request(folder_ / "none")), {"does not exist"}));
  EXPECT_TRUE(says(refusal(request(input, "made.txt")), {"ends in .csv, .npy, .h5"}));
  fs::create_symlink(input, folder_ / "link.npy");
  for (const auto* const output : {"data/inputs.npy", "data/place.npy", "link.npy"}) {
    auto replacing = request(folder_ / "data", output);
    replacing.replaces = true;
    EXPECT_TRUE(says(refusal(replacing), {output, "it is an array in", "which is read"}));
  }
  auto other = request(input);
  other.tile = 8;
  EXPECT_TRUE(says(refusal(other), {"--tile 8 is for simulation boxes", "data arrays"}));
  fs::remove_all(folder_ / "run");
  train_on_pictures();
  EXPECT_TRUE(says(refusal(request(folder_ / "config.yaml")), {"is no image"}));
  fs::create_directory(folder_ / "empty");
  EXPECT_TRUE(says(refusal(request(folder_ / "empty")), {"there are no images in"}));
}

TEST_F(PredictSamples, NeedsAFileForManyNumbers) {
  write_array("data/inputs", {4, 3});
  write_array("data/targets", {4, 3, 3});
  train(fmt::format("name: arrays, train_path: {0}, valid_path: {0}", (folder_ / "data").string()),
        "model: {name: mlp, hidden: [8]}\noptimizer: {name: sgd}\n"
        "training: {batch_size: 4, n_epochs: 1, loss: mse}");
  const auto input = folder_ / "data" / "inputs.npy";
  EXPECT_TRUE(says(refusal(request(input)), {"9 numbers of each sample", "-o FILE.csv"}));
  (void)predict(request(input, "made.npy"));
  EXPECT_THAT(open_npy_array(folder_ / "made.npy")->layout().shape, ElementsAre(4, 3, 3));
}

}  // namespace
}  // namespace kolo::testing
