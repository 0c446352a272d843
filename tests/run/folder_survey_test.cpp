// Which rank of a run looks through folders of images.
#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "data/images/image_files.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/comm/threads.h"
#include "kolo/config/factories.h"
#include "kolo/data/image_folder.h"
#include "kolo/run/launch_environment.h"
#include "kolo/run/run.h"
#include "kolo/train/observe/history.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::Each;

namespace fs = std::filesystem;

// How often each of some folders is opened, from now on.
class FolderOpenings {
 public:
  explicit FolderOpenings(const std::vector<fs::path>& folders)
      : queue_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    // Closings, too, since the system counts two equal events in a row as one.
    for (const auto& folder : folders)
      folders_[::inotify_add_watch(queue_, folder.c_str(), IN_OPEN | IN_CLOSE)] = folder;
  }
  FolderOpenings(const FolderOpenings&) = delete;
  FolderOpenings& operator=(const FolderOpenings&) = delete;
  ~FolderOpenings() { ::close(queue_); }

  [[nodiscard]] std::map<fs::path, int> take() {
    std::map<fs::path, int> counts;
    for (const auto& [watch, folder] : folders_) counts[folder] = 0;
    alignas(inotify_event) std::array<char, 65536> bytes{};
    for (ssize_t got = 0; (got = ::read(queue_, bytes.data(), bytes.size())) > 0;) {
      for (ssize_t at = 0; at < got;) {
        const auto& event = *reinterpret_cast<const inotify_event*>(bytes.data() + at);
        const bool is_folder_itself = event.len == 0;
        if (is_folder_itself && (event.mask & IN_OPEN) != 0) ++counts[folders_.at(event.wd)];
        at += static_cast<ssize_t>(sizeof(inotify_event) + event.len);
      }
    }
    return counts;
  }

 private:
  int queue_;
  std::map<int, fs::path> folders_;
};

std::string grey_image(int level) {
  return png_file(4, 4, std::string(48, static_cast<char>(level)));
}

class FolderSurvey : public ::testing::Test {
 protected:
  static constexpr int ranks = 3;

  void write_images(const fs::path& root) {
    for (const auto* part : {"train", "valid"})
      for (const auto* name : {"a", "b"})
        for (int i = 0; i < 6; ++i)
          folder_.write((root / part / name / (std::to_string(i) + ".png")).string(),
                        grey_image(40 * i));
  }

  [[nodiscard]] std::vector<fs::path> folders() const {
    std::vector<fs::path> all;
    for (const auto* name : {"train", "train/a", "train/b", "valid", "valid/a", "valid/b"})
      all.push_back(folder_ / name);
    return all;
  }

  // Each rank's exit status.
  std::array<int, ranks> train(const std::vector<std::string>& settings,
                               const std::vector<std::string>& of_rank_1 = {}) {
    const auto config = folder_.write(
        "images.yaml",
        "data: {name: imagenet, input_shape: [3, 32, 32], workers: 0}\nmodel: {name: cnn}\n"
        "optimizer: {name: sgd, lr: 0.001}\ntraining: {batch_size: 2, n_epochs: 1}\n"
        "device: {kind: cpu}\n");
    std::array<int, ranks> statuses{};
    run_as_threads(ranks, [&](const Communicator& communicator) {
      auto words = settings;
      if (communicator.rank() == 1) words.insert(words.end(), of_rank_1.begin(), of_rank_1.end());
      const ConfigSource source{config, {}, words, {}, folder_ / "run"};
      RunOptions options;
      options.console = &console_;
      options.stop_requested = [] { return false; };
      options.communicator = communicator;
      statuses.at(static_cast<std::size_t>(communicator.rank())) = kolo::run(source, {}, options);
    });
    return statuses;
  }
  [[nodiscard]] std::vector<std::string> places(const std::string& below = {}) const {
    const auto root = (folder_ / below).string();
    return {"data.train_dir=" + root + "/train", "data.valid_dir=" + root + "/valid"};
  }

  TemporaryFolder folder_;
  std::ostringstream console_;
};

TEST_F(FolderSurvey, OneRankGoesThroughTheFoldersForAll) {
  write_images("");
  FolderOpenings openings(folders());
  EXPECT_THAT(train(places()), Each(0));
  EXPECT_EQ(History::read(folder_ / "run" / "history.json").n_ranks(), ranks);
  for (const auto& [folder, count] : openings.take()) EXPECT_EQ(count, 1) << folder;
}

TEST_F(FolderSurvey, WhatOneRankFindsWrongIsSaidOnce) {
  write_images("");
  fs::remove_all(folder_ / "train" / "b");
  fs::create_directories(folder_ / "train" / "b");
  ::testing::internal::CaptureStderr();
  const auto statuses = train(places());
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(statuses, Each(exit_wrong_input));
  EXPECT_TRUE(says(said, {"data.train_dir", "the class b has no images"}));
  EXPECT_EQ(said.find("no images"), said.rfind("no images")) << said;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(FolderSurvey, ARankThatReadsAnotherPlaceLooksThere) {
  write_images("");
  write_images("copy");
  EXPECT_THAT(train(places(), places("copy")), Each(0));
  fs::remove(folder_ / "copy" / "train" / "b" / "3.png");
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(train(places(), places("copy")), Each(exit_wrong_input));
  EXPECT_TRUE(
      says(::testing::internal::GetCapturedStderr(), {"the number of training samples is 12 for"}));
}

TEST_F(FolderSurvey, ARankWithoutTheFolderSaysSo) {
  write_images("");
  auto config = load_run_config(
      {folder_.write("own.yaml",
                     "data: {name: imagenet, input_shape: [3, 32, 32]}\nmodel: {name: cnn}\n"
                     "optimizer: {name: sgd}\ntraining: {batch_size: 2}\n"),
       {},
       places()});
  const auto survey = std::make_shared<const std::string>(survey_datasets(config));
  EXPECT_EQ(make_datasets(config, {.survey = survey}).training->size(), 12);
  fs::rename(folder_ / "valid", folder_ / "elsewhere");
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)make_datasets(config, {.survey = survey}); }),
                   {"data.valid_dir", "is no folder here"}));
  const auto cut = std::make_shared<const std::string>(survey->substr(0, survey->size() - 1));
  EXPECT_TRUE(says(message_of<Error>([&] { (void)make_datasets(config, {.survey = cut}); }),
                   {"is no listing"}));
}

}  // namespace
}  // namespace kolo::testing
