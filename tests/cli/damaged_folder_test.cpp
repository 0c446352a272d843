// A run goes on in a folder of which one file is damaged: that either makes no difference, or is
// said with the file's name before anything starts.
#include <fstream>
#include <random>
#include <tuple>

#include "cli/small_runs.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

struct Damage {
  std::string name;
  std::function<void(const fs::path&)> doing;
};

void fill_with_noise(const fs::path& file) {
  std::mt19937 random(5);
  std::string noise(std::max<std::size_t>(fs::file_size(file), 64), '\0');
  for (char& letter : noise) letter = static_cast<char>(random());
  std::ofstream(file, std::ios::binary | std::ios::trunc) << noise;
}

void replace_by_folder(const fs::path& file) {
  fs::remove(file);
  fs::create_directory(file);
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"empty", [](const fs::path& file) { fs::resize_file(file, 0); }},
      {"cut in half", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }},
      {"noise", fill_with_noise},
      {"a folder", replace_by_folder}};
  return all;
}

class DamagedFolder : public SmallRuns {
 protected:
  // The folder of a run of three epochs after two, with a checkpoint of each.
  [[nodiscard]] std::vector<fs::path> files_of_a_stopped_run() const {
    const auto stopped =
        train({"--stop-after-epochs", "2", "--timeline", "training.n_epochs=3"}, "whole");
    EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "whole"))
      if (entry.is_regular_file())
        files.push_back(entry.path().lexically_relative(folder / "whole"));
    std::sort(files.begin(), files.end());
    return files;
  }

  void expect_sane(const fs::path& file, const Damage& damage) const {
    SCOPED_TRACE(file.string() + ": " + damage.name);
    copy("whole", "run");
    damage.doing(folder / "run" / file);
    const auto result = train({"--resume", "--timeline", "training.n_epochs=3"});
    const auto said = result.output + result.errors;
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.exit_code, AnyOf(0, 2)) << said;
    EXPECT_THAT(said, AllOf(Not(HasSubstr("filesystem error")), Not(HasSubstr("json.exception")),
                            Not(HasSubstr("basic_string"))));
    if (result.exit_code == 0)
      EXPECT_EQ(newest().step, 75);
    else
      EXPECT_TRUE(says(said, {file.string()})) << "status " << result.exit_code;
    // A damaged checkpoint is told of although an earlier one takes its place.
    if (is_in(file, "step-00000050")) {
      EXPECT_EQ(result.exit_code, 0) << said;
      EXPECT_TRUE(says(said, {"step-00000050"}));
    }
  }

  static bool is_in(const fs::path& file, const std::string& checkpoint) {
    return file.parent_path().filename() == checkpoint;
  }
};

TEST_F(DamagedFolder, EachFileMattersNotOrIsNamed) {
  for (const auto& file : files_of_a_stopped_run()) {
    if (is_in(file, "step-00000025"))  // which nobody reads
      expect_sane(file, damages().front());
    else
      for (const auto& damage : damages()) expect_sane(file, damage);
  }
}

// The files are whole, but what they say is not kolo's.
TEST_F(DamagedFolder, AStateOfAnotherKindIsSaidInWordsOfTheFile) {
  ASSERT_EQ(train({"--stop-after-epochs", "1"}, "whole").exit_code, 75);
  const nlohmann::json empty = nlohmann::json::object();
  for (const auto& [key, value, words] :
       {std::tuple{"epoch", nlohmann::json(),
                   "the key \"epoch\": expected a whole number, got null"},
        {"best_epoch", "x", "the key \"best_epoch\": expected a whole number, got \"x\""},
        {"ranks", nlohmann::json(), "the key \"ranks\""},
        {"warmup", empty, "the key \"steps\" is missing"}}) {
    auto checkpoint = newest("whole").content;
    checkpoint.state[key] = value;
    copy("whole", "run");
    fs::remove_all(folder / "run/checkpoints");
    (void)store("run").save(25, checkpoint, false);
    EXPECT_TRUE(ends_with(train({"--resume"}), 1, {"state.json", "is not one of kolo's: ", words}));
  }
}

}  // namespace
}  // namespace kolo::testing
