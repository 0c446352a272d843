#include "kolo/train/observe/tensorboard.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/event_encoder.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace events = testing::events;
using ::testing::MatchesRegex;

// Events of the file after its first record.
std::string events_in(const std::filesystem::path& path) {
  return read_text_file(path).substr(events::version().size());
}

// Value with the plugin, as the first of a tag has it.
std::string first_scalar(std::string_view tag, float value, std::int64_t step, double time) {
  using events::field;
  const std::string plugin = field(9, field(1, field(1, std::string_view("scalars"))));
  return events::summary(field(1, tag) + field(2, value) + plugin, step, time);
}

// RFC 3720, B.4, gives a CRC-32C of 0x8A9136AA for 32 bytes of zeros.
TEST(TensorBoard, TheTestsOwnChecksumIsRight) {
  const std::uint32_t crc = events::masked_crc32c(std::string(32, '\0')) - 0xa282ead8U;
  EXPECT_EQ((crc << 15) | (crc >> 17), 0x8A9136AAU);
}

TEST(TensorBoard, FileNameAndFirstRecord) {
  const TemporaryFolder folder;
  const TensorBoardWriter writer(folder / "run");
  EXPECT_EQ(writer.path().parent_path(), folder / "run");
  EXPECT_THAT(writer.path().filename().string(),
              MatchesRegex("events\\.out\\.tfevents\\.[0-9]+\\..+\\." + std::to_string(getpid())));
  const auto text = read_text_file(writer.path());
  double time = 0;
  std::memcpy(&time, text.data() + 13, sizeof time);  // after the record's head and the field's key
  EXPECT_NEAR(time, wall_time(), 60);
  EXPECT_EQ(text, events::version(time));
}

TEST(TensorBoard, WritesWhatOthersWrite) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.add_scalar("loss/train", 2.25, 0, 1000.5);
  writer.add_scalar("accuracy/žluťoučký", 0.0, 7, 1001.5);  // a zero must be written, not left out
  writer.add_scalar("loss/train", -1e-3, std::int64_t{1} << 40, 1002.5);
  writer.add_scalar("loss/train", std::nan(""), 9, 1003.5);
  writer.forget_from(300, 1004.5);
  writer.flush();
  EXPECT_EQ(events_in(writer.path()),
            first_scalar("loss/train", 2.25F, 0, 1000.5) +
                first_scalar("accuracy/žluťoučký", 0, 7, 1001.5) +
                events::scalar("loss/train", -1e-3F, std::int64_t{1} << 40, 1002.5) +
                events::scalar("loss/train", std::nanf(""), 9, 1003.5) +
                events::restart(300, 1004.5));
}

TEST(TensorBoard, WhatComesAfterAStepIsTakenOutOfAllFiles) {
  const TemporaryFolder folder;
  const auto write = [&](std::int64_t first, std::int64_t last) {
    TensorBoardWriter writer(folder.path());
    for (auto step = first; step <= last; ++step) {
      writer.add_scalar("step/loss", static_cast<double>(step), step);
      if (step % 10 == 0) writer.add_scalar("loss/train", 1, step);
    }
    writer.flush();
    return writer.path();
  };
  const auto first = write(1, 15), second = write(16, 30);
  const auto steps_of = [](const std::filesystem::path& file) {
    std::vector<std::pair<std::string, std::int64_t>> steps;
    for (const auto& scalar : events::scalars_in(file)) steps.emplace_back(scalar.tag, scalar.step);
    return steps;
  };
  const auto before = steps_of(first);
  drop_events_after(folder.path(), 20, [](std::string_view tag) { return tag == "loss/train"; });
  EXPECT_EQ(steps_of(first), before) << "nothing of it is undone";
  const auto kept = steps_of(second);
  ASSERT_EQ(kept.size(), 5U);
  EXPECT_EQ(kept.back(), std::pair(std::string("step/loss"), std::int64_t{20}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2)
      << "nothing is left aside";
}

TEST(TensorBoard, OfADamagedFileStaysWhatComesBefore) {
  const auto before = events::version() + events::scalar("a", 1, 1) + events::scalar("a", 2, 5);
  const auto whole = before + events::scalar("a", 3, 1);
  const auto expect_kept = [](const std::string& content, std::size_t scalars) {
    const TemporaryFolder folder;
    const auto file = folder.write(fmt::format("{}1", event_file_prefix), content);
    drop_events_after(folder.path(), 1, [](std::string_view) { return false; });
    EXPECT_EQ(events::scalars_in(file).size(), scalars) << content.size();
  };
  expect_kept(whole, 2);
  for (auto place = before.size(); place < whole.size(); ++place) {
    expect_kept(whole.substr(0, place), 1);
    auto flipped = whole;
    flipped[place] ^= 1;
    expect_kept(flipped, 1);
  }
}

TEST(TensorBoard, TwoWritersNeverShareAFile) {
  const TemporaryFolder folder;
  const TensorBoardWriter first(folder.path());
  const TensorBoardWriter second(folder.path());
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(events_in(first.path()), "");
}

TEST(TensorBoard, AFileInPlaceOfTheFolderIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder.write("run", "");
  EXPECT_TRUE(says(message_of<Error>([&] { const TensorBoardWriter writer(path); }),
                   {"cannot create " + path.string()}));
}

}  // namespace
}  // namespace kolo::testing
