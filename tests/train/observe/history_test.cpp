#include "kolo/train/observe/history.h"

#include <cmath>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

History example() {
  History history(2);
  history.add(EpochRecord{.epoch = 0, .step = 0, .val_loss = 2.3});
  history.add(EpochRecord{.epoch = 1,
                          .step = 938,
                          .loss = 0.1 + 0.2,
                          .accuracy = 0.9,
                          .val_loss = 0.4,
                          .val_accuracy = 0.91,
                          .lr = 0.01,
                          .seconds = 4.5,
                          .samples_per_second = 13333,
                          .data_wait_seconds = 0.02,
                          .exposed_communication_seconds = 0.25,
                          .time = 1.7e9 + 0.125,
                          .elapsed = 4.75});
  history.add(StepRecord{.step = 100, .loss = 1.5, .lr = 0.01});
  history.add(StepRecord{.step = 900, .loss = 0.5, .lr = 0.01});
  history.summary()["best_val_accuracy"] = 0.91;
  return history;
}

TEST(History, ComesBackFromItsFile) {
  const TemporaryFolder folder;
  const auto path = folder / "history.json";
  example().write(path);
  const auto read = History::read(path);
  EXPECT_EQ(read.n_ranks(), 2);
  ASSERT_EQ(read.epochs().size(), 2U);
  EXPECT_TRUE(std::isnan(read.epochs()[0].loss));
  EXPECT_EQ(read.epochs()[1].epoch, 1);
  EXPECT_EQ(read.epochs()[1].loss, 0.1 + 0.2);  // to the last bit
  EXPECT_EQ(read.epochs()[1].data_wait_seconds, 0.02);
  EXPECT_EQ(read.epochs()[1].exposed_communication_seconds, 0.25);
  EXPECT_EQ(read.epochs()[1].time, 1.7e9 + 0.125);
  EXPECT_EQ(read.epochs()[1].elapsed, 4.75);
  ASSERT_EQ(read.steps().size(), 2U);
  EXPECT_EQ(read.steps()[1].step, 900);
  EXPECT_EQ(read.to_json(), example().to_json());
  read.write(folder / "again.json");
  EXPECT_EQ(read_text_file(folder / "again.json"), read_text_file(path));
}

// The layout that reports and other programs read.
TEST(History, FileLayout) {
  History history(1);
  history.add(EpochRecord{.epoch = 1, .step = 2, .loss = 0.5});
  history.add(StepRecord{.step = 1,
                         .loss = 0.75,
                         .accuracy = 0.5,
                         .lr = 0.1,
                         .samples_per_second = 8,
                         .time = 100.5,
                         .elapsed = 2.5});
  const TemporaryFolder folder;
  history.write(folder / "history.json");
  EXPECT_EQ(read_text_file(folder / "history.json"), R"({
  "n_ranks": 1,
  "epochs": [
    {"epoch":1,"step":2,"loss":0.5,"accuracy":null,"val_loss":null,"val_accuracy":null,"top_accuracy":null,"val_top_accuracy":null,"lr":null,"seconds":null,"samples_per_second":null,"data_wait_seconds":null,"exposed_communication_seconds":null,"time":null,"elapsed":null}
  ],
  "steps": [
    {"step":1,"loss":0.75,"accuracy":0.5,"lr":0.1,"samples_per_second":8.0,"time":100.5,"elapsed":2.5}
  ],
  "summary": {}
}
)");
}

TEST(History, WhatIsNotFiniteIsNull) {
  History history;
  history.add(
      EpochRecord{.loss = std::nan(""), .val_loss = std::numeric_limits<double>::infinity()});
  history.summary()["worst"] = -std::numeric_limits<double>::infinity();
  const TemporaryFolder folder;
  history.write(folder / "h");
  const auto document = nlohmann::json::parse(read_text_file(folder / "h"));
  EXPECT_TRUE(document["epochs"][0]["loss"].is_null());
  EXPECT_TRUE(document["epochs"][0]["val_loss"].is_null());
  EXPECT_TRUE(document["summary"]["worst"].is_null());
  EXPECT_FALSE(document.contains("steps"));
}

TEST(History, TellsOfTheEpochUnderWayUntilItIsDone) {
  const TemporaryFolder folder;
  auto history = example();
  history.begin({.epoch = 2, .last_step = 1900});
  history.write(folder / "history.json");
  auto read = History::read(folder / "history.json");
  ASSERT_TRUE(read.epoch_under_way().has_value());
  EXPECT_EQ(read.epoch_under_way()->epoch, 2);
  EXPECT_EQ(read.epoch_under_way()->last_step, 1900);
  EXPECT_EQ(read.to_json(), history.to_json());
  read.add(EpochRecord{.epoch = 2, .step = 1900});
  EXPECT_FALSE(read.epoch_under_way());
  history.drop_after(900);
  EXPECT_FALSE(history.epoch_under_way()) << "it begins again";
}

TEST(History, DropAfterKeepsThatStep) {
  auto history = example();
  history.drop_after(938, 0);
  EXPECT_EQ(history.epochs().size(), 1U) << "one that ended with that step, but is under way there";
  EXPECT_EQ(history.steps().size(), 2U);
  EXPECT_TRUE(history.summary().empty());
  history.drop_after(100);
  EXPECT_EQ(history.steps().size(), 1U);
  history.drop_after(-1);
  EXPECT_TRUE(history.epochs().empty());
  EXPECT_TRUE(history.steps().empty());
}

// A trainer may keep the history within its own JSON, whose keys are sorted.
TEST(History, TravelsThroughPlainJson) {
  const nlohmann::json kept = example().to_json();
  EXPECT_EQ(History::from_json(kept).to_json()["epochs"], example().to_json()["epochs"]);
}

TEST(History, MalformedFilesAreNamed) {
  const TemporaryFolder folder;
  const auto rejection = [&](const std::string& content) {
    const auto path = folder.write("history.json", content);
    return message_of<Error>([&] { (void)History::read(path); });
  };
  EXPECT_TRUE(says(rejection("{\n\n"), {"history.json:3", "cut off"}));
  EXPECT_TRUE(says(rejection("{\n\"epochs\": x}"), {"history.json:2", "damaged"}));
  EXPECT_TRUE(says(rejection("[]"), {"history.json", "malformed"}));
  EXPECT_TRUE(says(rejection("null"), {"expected an object with the key \"n_ranks\", got null"}));
  EXPECT_TRUE(says(rejection("{\"n_ranks\":1,\"epochs\":null}"),
                   {"the key \"epochs\": expected a list, got null"}));
  EXPECT_TRUE(says(rejection("{\"n_ranks\":1e400}"), {"history.json", "1e400"}));
  EXPECT_TRUE(says(rejection("{\"n_ranks\":4294967297,\"epochs\":[]}"),
                   {"the key \"n_ranks\": expected a whole number, got 4294967297"}));
  EXPECT_TRUE(says(rejection("{\"epochs\":[]}"), {"the key \"n_ranks\" is missing"}));
  for (const auto* const text : {"null", "[]", "3", "{\"epochs\":[3]}", "{\"n_ranks\":1e400}"})
    EXPECT_FALSE(says(rejection(text), {"exception"}));
  EXPECT_TRUE(says(rejection("{\"n_ranks\":1,\"epochs\":[{\"epoch\":1}]}"), {"step"}));
  EXPECT_TRUE(says(rejection("{\"n_ranks\":1,\"epochs\":[{\"epoch\":1,\"step\":1,\"lr\":\"x\"}]}"),
                   {"the key \"lr\": expected a number, got \"x\""}));
}

}  // namespace
}  // namespace kolo::testing
