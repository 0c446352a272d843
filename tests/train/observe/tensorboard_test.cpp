#include "kolo/train/observe/tensorboard.h"

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/event_encoder.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;
using testing::message_of;
using testing::TemporaryFolder;
using testing::events::masked_crc32c;

// A reader of event files of the test's own: nothing here shares code with the writer or the
// protobuf library.

template <typename T>
T number_at(std::string_view bytes) {
  T number{};
  if (bytes.size() < sizeof number) throw Error("the record ends too early");
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::vector<std::string> records_in(std::string_view bytes) {
  std::vector<std::string> records;
  while (!bytes.empty()) {
    const auto length = number_at<std::uint64_t>(bytes);
    EXPECT_EQ(number_at<std::uint32_t>(bytes.substr(8)), masked_crc32c(bytes.substr(0, 8)));
    records.emplace_back(bytes.substr(12, length));
    EXPECT_EQ(number_at<std::uint32_t>(bytes.substr(12 + length)), masked_crc32c(records.back()));
    bytes.remove_prefix(16 + length);
  }
  return records;
}

// One message: its fields' bytes by number (varints as eight bytes). Repeated fields don't occur
// here.
using Message = std::map<std::uint64_t, std::string>;

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = number_at<unsigned char>(bytes);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

Message fields_of(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const auto key = take_varint(bytes);
    std::size_t size = 0;
    std::string varint(8, '\0');
    switch (key & 7) {
      case 0: {
        const auto value = take_varint(bytes);
        std::memcpy(varint.data(), &value, 8);
        message[key >> 3] = varint;
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = take_varint(bytes);
        break;
      case 5:
        size = 4;
        break;
      default:
        throw Error("unknown wire type");
    }
    if (size > bytes.size()) throw Error("a field ends behind its message");
    EXPECT_EQ(message.count(key >> 3), 0U);
    message[key >> 3] = bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
  return message;
}

struct Scalar {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string tag, plugin;
  float value = 0;
};

Scalar scalar_of(const std::string& record) {
  auto event = fields_of(record);
  Scalar scalar;
  scalar.wall_time = number_at<double>(event.at(1));
  if (event.count(2) != 0) scalar.step = number_at<std::int64_t>(event[2]);
  auto value = fields_of(fields_of(event.at(5)).at(1));
  scalar.tag = value.at(1);
  scalar.value = number_at<float>(value.at(2));
  if (value.count(9) != 0) scalar.plugin = fields_of(fields_of(value[9]).at(1)).at(1);
  return scalar;
}

std::vector<std::string> records_of_file(const std::filesystem::path& path) {
  return records_in(read_text_file(path));
}

// Checks the reader itself against the value that RFC 3720, B.4 gives for CRC-32C: 32 bytes of
// zeros have 0x8A9136AA.
TEST(TensorBoard, TheTestsOwnChecksumIsRight) {
  const std::uint32_t crc = masked_crc32c(std::string(32, '\0')) - 0xa282ead8U;
  EXPECT_EQ((crc << 15) | (crc >> 17), 0x8A9136AAU);
}

TEST(TensorBoard, FileNameAndFirstRecord) {
  const TemporaryFolder folder;
  const TensorBoardWriter writer(folder / "run", ".validation");
  EXPECT_EQ(writer.path().parent_path(), folder / "run");
  EXPECT_THAT(writer.path().filename().string(),
              MatchesRegex("events\\.out\\.tfevents\\.[0-9]+\\..+\\." + std::to_string(getpid()) +
                           "\\.validation"));
  const auto records = records_of_file(writer.path());
  ASSERT_EQ(records.size(), 1U);
  auto event = fields_of(records[0]);
  EXPECT_EQ(event.at(3), "brain.Event:2");
  EXPECT_NEAR(number_at<double>(event.at(1)), wall_time(), 60);
}

TEST(TensorBoard, ScalarsComeBack) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.add_scalar("loss/train", 2.25, 0, 1000.5);
  writer.add_scalar("accuracy/žluťoučký", 0.0, 7, 1001.5);
  writer.add_scalar("loss/train", -1e-3, std::int64_t{1} << 40, 1002.5);
  writer.add_scalar("loss/train", std::nan(""), 9, 1003.5);
  writer.flush();
  const auto records = records_of_file(writer.path());
  ASSERT_EQ(records.size(), 5U);

  const auto first = scalar_of(records[1]);
  EXPECT_EQ(first.tag, "loss/train");
  EXPECT_EQ(first.value, 2.25F);
  EXPECT_EQ(first.step, 0);
  EXPECT_EQ(first.wall_time, 1000.5);
  EXPECT_EQ(first.plugin, "scalars");

  const auto zero = scalar_of(records[2]);  // a zero must be written, not left out
  EXPECT_EQ(zero.tag, "accuracy/žluťoučký");
  EXPECT_EQ(zero.value, 0.0F);
  EXPECT_EQ(zero.step, 7);
  EXPECT_EQ(zero.plugin, "scalars");

  const auto third = scalar_of(records[3]);
  EXPECT_EQ(third.value, -1e-3F);
  EXPECT_EQ(third.step, std::int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(scalar_of(records[4]).value));
}

TEST(TensorBoard, ForgettingIsASessionStart) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.forget_from(300);
  writer.flush();
  auto event = fields_of(records_of_file(writer.path()).at(1));
  EXPECT_EQ(number_at<std::int64_t>(event.at(2)), 300);
  EXPECT_EQ(number_at<std::int64_t>(fields_of(event.at(7)).at(1)), 1);
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
    for (const auto& scalar : read_event_file(file).scalars)
      steps.emplace_back(scalar.tag, scalar.step);
    return steps;
  };
  const auto before = steps_of(first);
  drop_events_after(folder.path(), 20, [](std::string_view tag) { return tag == "loss/train"; });
  EXPECT_EQ(steps_of(first), before) << "nothing of it is undone";
  const auto kept = steps_of(second);
  ASSERT_EQ(kept.size(), 5U);
  EXPECT_EQ(kept.back(), std::pair(std::string("step/loss"), std::int64_t{20}));
  EXPECT_TRUE(read_event_file(second).damage.empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2)
      << "nothing is left aside";
}

TEST(TensorBoard, ALongRunIsWrittenWholeByTheDestructor) {
  const TemporaryFolder folder;
  std::filesystem::path path;
  {
    TensorBoardWriter writer(folder.path());
    path = writer.path();
    for (int step = 0; step < 5000; ++step) writer.add_scalar("loss", step / 2.0, step);
  }
  const auto records = records_of_file(path);
  ASSERT_EQ(records.size(), 5001U);
  for (int step = 0; step < 5000; ++step) {
    const auto scalar = scalar_of(records[static_cast<std::size_t>(step) + 1]);
    ASSERT_EQ(scalar.step, step);
    ASSERT_EQ(scalar.value, static_cast<float>(step) / 2);
  }
}

TEST(TensorBoard, TwoWritersNeverShareAFile) {
  const TemporaryFolder folder;
  const TensorBoardWriter first(folder.path());
  const TensorBoardWriter second(folder.path());
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(records_of_file(first.path()).size(), 1U);
}

TEST(TensorBoard, AFileInPlaceOfTheFolderIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder.write("run", "");
  EXPECT_TRUE(says(message_of<Error>([&] { const TensorBoardWriter writer(path); }),
                   {"cannot create " + path.string()}));
}

}  // namespace
}  // namespace kolo
