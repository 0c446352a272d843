#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cli/background.h"
#include "kolo/base/file.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/history.h"
#include "support/event_encoder.h"
#include "support/idx_files.h"

namespace kolo::testing {

// Number of times that each value occurs in all event files of a run together.
using EventCounts = std::map<std::pair<std::string, std::int64_t>, int>;
inline EventCounts count_events(const std::filesystem::path& run) {
  EventCounts counts;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    for (const auto& scalar : events::scalars_in(entry.path())) ++counts[{scalar.tag, scalar.step}];
  }
  return counts;
}

// Runs of kolo train by a configuration, each in a folder of its own.
class Runs : public ::testing::Test {
 protected:
  explicit Runs(const std::string& yaml) : config(folder.write("small.yaml", yaml)) {}

  [[nodiscard]] std::vector<std::string> arguments(const std::vector<std::string>& more,
                                                   const std::string& output = "run") const {
    return joined({"train", config, "--output", folder / output, "device.intra_threads=1"}, more);
  }
  [[nodiscard]] ProcessResult train(const std::vector<std::string>& more,
                                    const std::string& output = "run") const {
    return run_kolo(arguments(more, output));
  }

  // A run as train() leaves it, which is trained once for all tests of a program.
  void have_run(const std::vector<std::string>& more, const std::string& output = "run") const {
    static const TemporaryFolder trained;
    static std::map<std::vector<std::string>, std::filesystem::path> runs;
    auto& run = runs[more];
    if (run.empty()) {
      run = trained / std::to_string(runs.size());
      ASSERT_TRUE(succeeds(train(more, run)));
    }
    copy(run, output);
  }

  [[nodiscard]] History history(const std::string& output = "run") const {
    return History::read(folder / output / "history.json");
  }
  [[nodiscard]] CheckpointStore store(const std::string& output = "run") const {
    return CheckpointStore({folder / output / "checkpoints"});
  }
  [[nodiscard]] LoadedCheckpoint newest(const std::string& output = "run") const {
    return store(output).load_newest([](const auto&) {}).value();
  }
  [[nodiscard]] std::filesystem::path checkpoint(int step,
                                                 const std::string& output = "run") const {
    return folder / output / "checkpoints" / fmt::format("step-{:08}", step) / "manifest.json";
  }
  // Waits for a checkpoint of this step or, because old ones are removed, of a later one.
  [[nodiscard]] bool wait_for_checkpoint(int step, const std::string& output = "run") const {
    const auto manifest = checkpoint(step, output);
    const auto first = manifest.parent_path().filename().string();
    return wait_until([&] {
      std::error_code none_yet;
      const std::filesystem::directory_iterator all(folder / output / "checkpoints", none_yet);
      return std::ranges::any_of(all, [&](const auto& entry) {
        const auto name = entry.path().filename().string();
        return name.size() == first.size() && name >= first &&
               std::filesystem::exists(entry.path() / manifest.filename());
      });
    });
  }
  [[nodiscard]] std::string text_of(const std::string& file) const {
    return read_text_file(folder / file);
  }
  // Replaces `to`.
  void copy(const std::string& from, const std::string& to) const {
    std::filesystem::remove_all(folder / to);
    std::filesystem::copy(folder / from, folder / to, std::filesystem::copy_options::recursive);
  }

  [[nodiscard]] EventCounts events(const std::string& output = "run") const {
    return count_events(folder / output);
  }
  // The same values, each once.
  void expect_same_events(const std::string& whole, const std::string& other) const {
    EXPECT_EQ(events(whole), events(other));
    for (const auto& [name, count] : events(other))
      EXPECT_EQ(count, 1) << name.first << " of step " << name.second;
  }
  // Step, model and optimizer of the newest checkpoints, to the bit.
  void expect_same_weights(const std::string& one, const std::string& other) const {
    const auto a = newest(one), b = newest(other);
    EXPECT_EQ(a.step, b.step);
    for (const auto* const file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_TRUE(read_text_file(a.path / file) == read_text_file(b.path / file)) << file;
  }
  void expect_same_records(const std::string& whole, const std::string& other) const {
    const auto a = history(whole), b = history(other);
    ASSERT_EQ(a.epochs().size(), b.epochs().size());
    for (std::size_t i = 0; i < a.epochs().size(); ++i) {
      EXPECT_EQ(a.epochs()[i].epoch, b.epochs()[i].epoch);
      EXPECT_EQ(a.epochs()[i].step, b.epochs()[i].step);
      EXPECT_EQ(a.epochs()[i].val_loss, b.epochs()[i].val_loss) << "epoch " << i;
    }
    ASSERT_EQ(a.steps().size(), b.steps().size());
    for (std::size_t i = 0; i < a.steps().size(); ++i) {
      EXPECT_EQ(a.steps()[i].step, b.steps()[i].step);
      EXPECT_EQ(a.steps()[i].loss, b.steps()[i].loss);
    }
  }

  TemporaryFolder folder;
  std::string config;
};

// Runs that take a second: 400 samples, 25 steps an epoch for one rank, 13 for two.
class SmallRuns : public Runs {
 protected:
  explicit SmallRuns(const std::string& training =
                         "optimizer: {name: adam, lr: 0.002, lr_scaling: none}\n"
                         "training: {batch_size: 16, n_epochs: 4, log_every: 1}\n"
                         "checkpoint: {keep: 50}\n")
      : Runs("data: {name: mnist, path: " + data().string() + "}\nmodel: {name: mnist_net}\n" +
             training) {}

  // Data of all tests of a program; no test may change them.
  [[nodiscard]] static const std::filesystem::path& data() {
    static const TemporaryFolder made;
    static const auto path = [] {
      write_small_mnist(made / "data", 400, 100);
      return made / "data";
    }();
    return path;
  }
};

}  // namespace kolo::testing
