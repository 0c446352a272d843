#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint/checkpoint.h"

#include <algorithm>
#include <fstream>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "support/errors.h"
#include "support/file_size_limit.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// A checkpoint that is recognisable by `value`.
Checkpoint checkpoint_of(double value, std::int64_t elements = 4) {
  Checkpoint checkpoint;
  checkpoint.model = {{"fc.weight", torch::full({elements}, value)}, {"steps", torch::tensor(7)}};
  checkpoint.optimizer = {{"fc.weight.momentum", torch::full({4}, -value)}};
  checkpoint.state = {{"epoch", 2}, {"value", value}};
  return checkpoint;
}

double value_of(const LoadedCheckpoint& loaded) {
  const double value = loaded.content.state.at("value");
  EXPECT_EQ(loaded.content.model.at(0).tensor[0].item<double>(), value);
  EXPECT_EQ(loaded.content.optimizer.at(0).tensor[0].item<double>(), -value);
  return value;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void flip_byte(const std::filesystem::path& path, std::int64_t from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const char flipped = static_cast<char>(file.peek() ^ 4);
  file.seekp(-from_end, std::ios::end);
  file.put(flipped);
}

class CheckpointStoreTest : public ::testing::Test {
 protected:
  CheckpointStore store(int keep_last = 3) const { return CheckpointStore({folder_, keep_last}); }

  std::optional<LoadedCheckpoint> load() {
    warnings_.clear();
    return store().load_newest([&](const std::string& warning) { warnings_.push_back(warning); });
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_ / "run/checkpoints";
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointStoreTest, ComesBackAsItWas) {
  const auto path = store().save(12, checkpoint_of(1.5), false);
  EXPECT_EQ(path, folder_ / "step-00000012");
  EXPECT_THAT(names_in(path), ElementsAre("manifest.json", "model.safetensors",
                                          "optimizer.safetensors", "state.json"));
  const auto loaded = load();
  ASSERT_TRUE(loaded);
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(loaded->path, path);
  EXPECT_EQ(loaded->step, 12);
  EXPECT_EQ(value_of(*loaded), 1.5);
  EXPECT_EQ(loaded->content.model[1].name, "steps");
  EXPECT_EQ(loaded->content.state, (nlohmann::json{{"epoch", 2}, {"value", 1.5}, {"step", 12}}));
}

// Bytes that this process has asked the system to read so far.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::int64_t count = 0;
  file >> name >> count;
  EXPECT_EQ(name, "rchar:");
  return count;
}

TEST_F(CheckpointStoreTest, LoadingReadsEveryFileOnce) {
  constexpr std::int64_t elements = 1 << 20;
  const auto path = store().save(3, checkpoint_of(3, elements), false);
  const auto before = bytes_read();
  EXPECT_EQ(value_of(CheckpointStore::load(path)), 3);
  EXPECT_LT(bytes_read() - before, elements * 4 * 3 / 2);
}

TEST_F(CheckpointStoreTest, HeadersTellNamesAndShapesAndTakeNoReading) {
  constexpr std::int64_t elements = 1 << 20;
  (void)store().save(3, checkpoint_of(3, elements), false);
  const auto before = bytes_read();
  const auto loaded = store().load_newest([](const auto&) {}, CheckpointReading::headers);
  EXPECT_LT(bytes_read() - before, 100'000);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->content.state.at("value"), 3);
  EXPECT_EQ(loaded->content.model.at(0).name, "fc.weight");
  EXPECT_EQ(loaded->content.model.at(0).tensor.sizes(), torch::IntArrayRef({elements}));
  EXPECT_TRUE(loaded->content.model.at(0).tensor.is_meta());
}

TEST_F(CheckpointStoreTest, ChecksumsAreReadWithoutTheTensors) {
  for (const int step : {1, 2}) store().save(step, checkpoint_of(step), false);
  flip_byte(folder_ / "step-00000002/model.safetensors", 1);
  const auto newest = [&](CheckpointReading reading) {
    return store().load_newest([](const auto&) {}, reading).value();
  };
  EXPECT_EQ(newest(CheckpointReading::headers).step, 2);
  const auto checked = newest(CheckpointReading::checked);
  EXPECT_EQ(checked.step, 1);
  EXPECT_TRUE(checked.content.model.at(0).tensor.is_meta());
}

TEST_F(CheckpointStoreTest, NothingThereIsNoError) {
  EXPECT_FALSE(load());
  EXPECT_THAT(store().list(), IsEmpty());
  EXPECT_FALSE(store().best());
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(CheckpointStoreTest, RefusesBadArguments) {
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)store(0); }), {"keep_last is 0"}));
  EXPECT_TRUE(says(message_of<InputError>([] { (void)CheckpointStore({"", 3}); }), {"no folder"}));
}

struct Damage {
  const char* what;
  std::function<void(const std::filesystem::path&)> apply;
  const char* words;
};

class DamagedCheckpoint : public CheckpointStoreTest,
                          public ::testing::WithParamInterface<Damage> {};

TEST_P(DamagedCheckpoint, FallsBackToTheOneBeforeWithAWarning) {
  store().save(1, checkpoint_of(1), false);
  const auto path = store().save(2, checkpoint_of(2), false);
  GetParam().apply(path);
  const auto loaded = load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->step, 1);
  EXPECT_EQ(value_of(*loaded), 1);
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("step-00000002"), HasSubstr(GetParam().words))));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DamagedCheckpoint,
    ::testing::Values(
        Damage{"FlippedModelByte",
               [](const auto& path) { flip_byte(path / "model.safetensors", 1); },
               "model.safetensors is damaged: its checksum"},
        Damage{"FlippedStateByte", [](const auto& path) { flip_byte(path / "state.json", 5); },
               "state.json is damaged: its checksum"},
        Damage{"TruncatedOptimizer",
               [](const auto& path) {
                 std::filesystem::resize_file(path / "optimizer.safetensors", 40);
               },
               "optimizer.safetensors has 40 bytes"},
        Damage{"MissingModel",
               [](const auto& path) { std::filesystem::remove(path / "model.safetensors"); },
               "model.safetensors is missing"},
        Damage{"FolderInPlaceOfAFile",
               [](const auto& path) {
                 std::filesystem::remove(path / "model.safetensors");
                 std::filesystem::create_directory(path / "model.safetensors");
               },
               "model.safetensors can't be read: Is a directory"},
        Damage{"BytesThatAreNoText",
               [](const auto& path) { std::ofstream(path / "manifest.json") << "{\x1b[31m\xff"; },
               "manifest.json is malformed at byte 2: expected JSON"},
        Damage{"MissingManifest",
               [](const auto& path) { std::filesystem::remove(path / "manifest.json"); },
               "manifest.json is missing"},
        Damage{"TruncatedManifest",
               [](const auto& path) { std::filesystem::resize_file(path / "manifest.json", 20); },
               "manifest.json is malformed"},
        Damage{"OtherManifest",
               [](const auto& path) { std::ofstream(path / "manifest.json") << "{\"format\": 3}"; },
               "manifest.json is malformed: the key \"format\": expected a text, got 3"},
        Damage{"EmptyFolder",
               [](const auto& path) {
                 std::filesystem::remove_all(path);
                 std::filesystem::create_directory(path);
               },
               "manifest.json is missing"},
        Damage{"OfAnotherStep",
               [](const auto& path) {
                 std::filesystem::remove_all(path);
                 std::filesystem::copy(path.parent_path() / "step-00000001", path);
               },
               "is of step 1"}),
    [](const auto& instance) { return std::string(instance.param.what); });

TEST_F(CheckpointStoreTest, AllDamagedMeansNone) {
  for (const int step : {1, 2})
    flip_byte(store().save(step, checkpoint_of(step), false) / "state.json", 5);
  EXPECT_FALSE(load());
  EXPECT_EQ(warnings_.size(), 2U);
}

TEST_F(CheckpointStoreTest, KeepsTheLastOnesAndTheBest) {
  for (int step = 1; step <= 6; ++step) {
    // A store of its own each time: which one is the best must survive a restart.
    store(2).save(step, checkpoint_of(step), step == 1 || step == 3);
  }
  EXPECT_THAT(names_in(folder_), ElementsAre("step-00000003", "step-00000005", "step-00000006"));
  EXPECT_EQ(store().best()->step, 3);
  store(2).save(7, checkpoint_of(7), true);
  EXPECT_THAT(names_in(folder_), ElementsAre("step-00000006", "step-00000007"));
  EXPECT_EQ(store().best()->step, 7);
}

TEST_F(CheckpointStoreTest, DamagedOnesDoNotCountAsKept) {
  for (int step = 1; step <= 3; ++step) store(2).save(step, checkpoint_of(step), false);
  std::filesystem::remove(folder_ / "step-00000003/state.json");
  store(2).save(4, checkpoint_of(4), false);
  EXPECT_THAT(names_in(folder_), ElementsAre("step-00000002", "step-00000004"));
}

TEST_F(CheckpointStoreTest, LaterStepsNeverPushOutTheOneJustSaved) {
  store(1).save(100, checkpoint_of(100), false);
  flip_byte(folder_ / "step-00000100/model.safetensors", 1);
  store(1).save(90, checkpoint_of(90), false);
  EXPECT_EQ(load()->step, 90);
  store(1).remove_after(90);
  EXPECT_THAT(names_in(folder_), ElementsAre("step-00000090"));
  store(1).remove_after(-1);
  EXPECT_THAT(names_in(folder_), IsEmpty());
}

TEST_F(CheckpointStoreTest, ListsNewestFirst) {
  for (const int step : {5, 123456789, 40}) store().save(step, checkpoint_of(step), step == 40);
  std::vector<std::int64_t> steps;
  for (const auto& entry : store().list()) steps.push_back(entry.step);
  EXPECT_THAT(steps, ElementsAre(123456789, 40, 5));
  EXPECT_EQ(load()->step, 123456789);
  EXPECT_EQ(CheckpointStore::load(store().best()->path).step, 40);
}

TEST_F(CheckpointStoreTest, TheSameStepTwiceIsReplaced) {
  store().save(1, checkpoint_of(1), false);
  store().save(1, checkpoint_of(2), false);
  EXPECT_THAT(names_in(folder_), ElementsAre("step-00000001"));
  EXPECT_EQ(value_of(*load()), 2);
}

TEST_F(CheckpointStoreTest, LeftoversGoAndOtherFilesStay) {
  store().save(1, checkpoint_of(1), false);
  std::filesystem::create_directories(folder_ / ".step-00000002.part/deep");
  temporary_.write("run/checkpoints/notes.txt", "mine");
  std::filesystem::create_directories(folder_ / "step-last");
  store().save(3, checkpoint_of(3), false);
  EXPECT_THAT(names_in(folder_),
              ElementsAre("notes.txt", "step-00000001", "step-00000003", "step-last"));
}

TEST_F(CheckpointStoreTest, NothingOfOthersIsRemoved) {
  for (const char* name : {"step-00000001/weights.bin", "step-00000002/notes.txt",
                           "step-00000003/model.safetensors", "step-00000009/weights.bin",
                           ".step-00000004.part/weights.bin", ".step-old.part/weights.bin"})
    temporary_.write(std::string("run/checkpoints/") + name, "mine");
  std::filesystem::create_directory_symlink(folder_ / "step-00000001", folder_ / "step-00000008");
  std::filesystem::remove(folder_ / "step-00000002/notes.txt");
  std::filesystem::remove(folder_ / "step-00000002");
  store(1).save(2, checkpoint_of(2), false);
  temporary_.write("run/checkpoints/step-00000002/notes.txt", "mine");
  for (const int step : {3, 5}) store(1).save(step, checkpoint_of(step), false);
  store(1).remove_after(4);
  const auto text = [&](const char* name) { return read_text_file(folder_ / name); };
  for (const char* name : {"step-00000001/weights.bin", "step-00000002/notes.txt",
                           "step-00000003.1/model.safetensors", "step-00000009/weights.bin",
                           ".step-00000004.part/weights.bin", ".step-old.part/weights.bin"})
    EXPECT_EQ(text(name), "mine") << name;
  EXPECT_THAT(names_in(folder_ / "step-00000002"), ElementsAre("notes.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "step-00000005")) << "this one is the store's";
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "step-00000008"));
}

// A crash between the two renames with which a step replaces itself.
TEST_F(CheckpointStoreTest, AnInterruptedReplacementIsFoundAndPutBack) {
  const auto path = store().save(5, checkpoint_of(5), true);
  std::filesystem::rename(path, folder_ / "step-00000005.replaced");
  EXPECT_EQ(value_of(*load()), 5);
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(store().best()->step, 5);
  store().save(6, checkpoint_of(6), false);
  EXPECT_THAT(names_in(folder_), ElementsAre("step-00000005", "step-00000006"));
}

TEST_F(CheckpointStoreTest, ASaveThatFailsLeavesTheOthersAsTheyWere) {
  store(1).save(1, checkpoint_of(1), false);
  const auto large = checkpoint_of(2, 1 << 20);
  for (const int step : {1, 2}) {
    const FileSizeLimit limit(1 << 16);
    EXPECT_TRUE(says(message_of<Error>([&] { store(1).save(step, large, true); }),
                     {"model.safetensors", "File too large"}));
  }
  EXPECT_THAT(names_in(folder_), ElementsAre("step-00000001"));
  EXPECT_EQ(value_of(*load()), 1);
}

TEST_F(CheckpointStoreTest, AFolderAboveThatWasTakenAwayIsNotMadeAnew) {
  CheckpointStore store({folder_, 3, /*makes_folders_above=*/false});
  std::filesystem::create_directory(temporary_ / "run");
  store.save(1, checkpoint_of(1), false);
  std::filesystem::rename(temporary_ / "run", temporary_ / "elsewhere");
  EXPECT_TRUE(says(message_of<Error>([&] { store.save(2, checkpoint_of(2), false); }),
                   {"cannot make the folder", "No such file"}));
  EXPECT_FALSE(std::filesystem::exists(temporary_ / "run"));
}

TEST_F(CheckpointStoreTest, AFileInPlaceOfTheFolder) {
  temporary_.write("run/checkpoints", "");
  EXPECT_TRUE(says(message_of<Error>([&] { store().save(1, checkpoint_of(1), false); }),
                   {"cannot make the folder", "run/checkpoints"}));
  EXPECT_THROW((void)load(), Error);
}

}  // namespace
}  // namespace kolo::testing
