
#include <bit>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/train/observe/tensorboard.h"
#include "support/errors.h"
#include "support/event_encoder.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {

// NaN equals NaN: what was written comes back bit for bit.
static bool operator==(const ScalarEvent& a, const ScalarEvent& b) {
  return a.tag == b.tag && a.step == b.step && a.time == b.time &&
         std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
}
static void PrintTo(const ScalarEvent& event, std::ostream* out) {
  *out << event.tag << " = " << event.value << " at step " << event.step << ", time " << event.time;
}

namespace {

namespace events = testing::events;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::message_of;
using testing::TemporaryFolder;

EventFile read(const std::string& bytes) {
  const TemporaryFolder folder;
  return read_event_file(folder.write("events.out.tfevents.1", bytes));
}

std::vector<double> values_of(std::span<const ScalarEvent> scalars) {
  std::vector<double> values;
  for (const ScalarEvent& scalar : scalars) values.push_back(scalar.value);
  return values;
}

TEST(TensorBoardReader, WhatTheWriterWroteComesBack) {
  const TemporaryFolder folder;
  std::mt19937_64 random(1);
  std::vector<ScalarEvent> written;
  std::filesystem::path path;
  {
    TensorBoardWriter writer(folder.path());
    path = writer.path();
    for (int i = 0; i < 10000; ++i) {
      const std::string tag(random() % 40 + 1, static_cast<char>('a' + random() % 4));
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (std::isnan(value)) continue;  // its bits may change on the way through a double
      written.push_back({tag, static_cast<std::int64_t>(random()) >> (random() % 64),
                         static_cast<double>(random() % 1000000) / 8, value});
      writer.add_scalar(tag, value, written.back().step, written.back().time);
    }
  }
  const EventFile file = read_event_file(path);
  EXPECT_EQ(file.scalars, written);
  EXPECT_EQ(file.damage, "");
  EXPECT_EQ(file.other_values, 0);
  EXPECT_THAT(file.restarts, IsEmpty());
}

TEST(TensorBoardReader, ScalarsOfPyTorchAndTensorFlow1) {
  const EventFile file = read(
      events::version() + events::scalar("Loss/train", 0.25F, 0, 1001.5) +
      events::scalar("Avg iters per sec", 0, 1024, 1002.5) +
      events::scalar("Loss/train", std::nanf(""), -3) +
      events::event(events::field(5, events::field(1, events::field(1, std::string_view("a")) +
                                                          events::field(2, 1.5F)) +
                                         events::field(1, events::field(7, std::string_view("b")) +
                                                              events::field(2, 2.5F))),
                    7, 1004));
  ASSERT_EQ(file.scalars.size(), 5U);
  EXPECT_EQ(file.scalars[0], (ScalarEvent{"Loss/train", 0, 1001.5, 0.25}));
  EXPECT_EQ(file.scalars[1], (ScalarEvent{"Avg iters per sec", 1024, 1002.5, 0}));
  EXPECT_TRUE(std::isnan(file.scalars[2].value));
  EXPECT_EQ(file.scalars[2].step, -3);
  EXPECT_EQ(file.scalars[3], (ScalarEvent{"a", 7, 1004, 1.5}));
  EXPECT_EQ(file.scalars[4], (ScalarEvent{"b", 7, 1004, 2.5}));
  EXPECT_EQ(file.damage, "");
}

TEST(TensorBoardReader, ScalarsOfTensorFlow2) {
  using events::field, events::raw, events::tensor, events::tensor_event;
  const std::string one = field(2, field(1, std::uint64_t{1}));  // a dimension of one
  const EventFile file = read(
      events::version() + events::tensor_scalar("epoch_loss", 0.5F, 0) +
      // Further values of a tag come without metadata; single values may stand as raw bytes.
      tensor_event("epoch_loss", tensor(events::float_type, field(4, raw(1.5F))), 1) +
      tensor_event("double", tensor(events::double_type, field(6, raw(2.5))), 2) +
      tensor_event("double", tensor(events::double_type, field(4, raw(-2.5))), 3) +
      tensor_event("int", tensor(events::int_type, field(7, events::varint(3))), 4) +
      tensor_event("int", tensor(events::int_type, field(4, raw(std::int32_t{-4}))), 5) +
      tensor_event("long", tensor(events::long_type, field(10, events::varint(1ULL << 40))), 6) +
      tensor_event("zero", tensor(events::float_type, ""), 7) +
      tensor_event("one", tensor(events::float_type, field(5, raw(9.0F)), one + one), 8));
  EXPECT_THAT(values_of(file.scalars),
              ElementsAre(0.5, 1.5, 2.5, -2.5, 3, -4, static_cast<double>(1ULL << 40), 0, 9));
  EXPECT_EQ(file.scalars[1], (ScalarEvent{"epoch_loss", 1, 1000, 1.5}));
  EXPECT_EQ(file.other_values, 0);
}

TEST(TensorBoardReader, TagsAreUtf8) {
  const EventFile file = read(events::version() + events::scalar("žluťoučký", 1, 1) +
                              events::scalar("caf\xe9", 2, 1) + events::scalar("a\xc3", 3, 1));
  ASSERT_EQ(file.scalars.size(), 3U);
  EXPECT_EQ(file.scalars[0].tag, "žluťoučký");
  EXPECT_EQ(file.scalars[1].tag, "caf\uFFFD");
  EXPECT_EQ(file.scalars[2].tag, "a\uFFFD");
}

TEST(TensorBoardReader, OtherValuesAreCounted) {
  using events::field, events::tensor, events::tensor_event;
  const std::string three = field(2, field(1, std::uint64_t{3}));
  const std::string floats = events::raw(1.0F) + events::raw(2.0F) + events::raw(3.0F);
  const EventFile file = read(
      events::version() +
      // A histogram, an image and a graph of TensorFlow 1.
      events::summary(field(1, std::string_view("h")) + field(5, field(1, 1.0)), 1, 1000) +
      events::summary(field(1, std::string_view("i")) + field(4, std::string_view("")), 1, 1000) +
      events::event(field(4, std::string_view("graph")), 0, 1000) +
      tensor_event("weights", tensor(events::float_type, field(5, floats), three), 1) +
      tensor_event("none", tensor(events::float_type, "", field(2, "")), 1) +
      tensor_event("text", tensor(events::string_type, field(8, std::string_view("hi"))), 1) +
      tensor_event("bad", tensor(events::double_type, field(4, std::string_view("abc"))), 1) +
      // What belongs to another plugin stays so when further values don't say it again.
      tensor_event("f1", tensor(events::float_type, field(5, events::raw(1.0F))), 1, "hparams") +
      tensor_event("f1", tensor(events::float_type, field(5, events::raw(1.0F))), 2));
  EXPECT_THAT(file.scalars, IsEmpty());
  EXPECT_EQ(file.other_values, 8);
  EXPECT_EQ(file.damage, "");
}

TEST(TensorBoardReader, ARestartVoidsWhatWasThereAtItsStepAndLater) {
  const auto first = read(events::version() + events::scalar("a", 1, 1) +
                          events::scalar("a", 2, 2) + events::scalar("b", 3, 3));
  const auto second = read(events::version() + events::restart(2) + events::scalar("a", 4, 2) +
                           events::scalar("a", 5, 3));
  ASSERT_EQ(second.restarts.size(), 1U);
  EXPECT_EQ(second.restarts[0].position, 0U);
  EXPECT_EQ(second.restarts[0].step, 2);
  const std::vector files = {first, second};
  EXPECT_THAT(values_of(scalars_in_effect(files)), ElementsAre(1, 4, 5));
  EXPECT_THAT(values_of(scalars_in_effect(std::span(files).first(1))), ElementsAre(1, 2, 3));
  const std::vector again = {first, second, read(events::version() + events::restart(0))};
  EXPECT_THAT(scalars_in_effect(again), IsEmpty());
}

// A file of the two kinds of scalars, with a restart among them.
std::string small_file() {
  return events::version() + events::scalar("loss", 1, 1, 1001) +
         events::tensor_scalar("epoch_loss", 2, 2, 1002) + events::restart(2, 1003) +
         events::scalar("loss", 3, 2, 1004) + events::scalar("accuracy", 4, 3, 1005);
}

TEST(TensorBoardReader, AFileCutOffAnywhereIsReadUpToThere) {
  const TemporaryFolder folder;
  const std::string bytes = small_file();
  const auto whole = read(bytes).scalars;
  ASSERT_EQ(whole.size(), 4U);
  const std::size_t first = events::version().size();
  int undamaged = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    const auto path = folder.write(std::to_string(size), std::string_view(bytes).substr(0, size));
    if (size < first) {
      EXPECT_TRUE(says(message_of<InputError>([&] { (void)read_event_file(path); }),
                       {path.string(), "event"}));
      continue;
    }
    const EventFile file = read_event_file(path);
    ASSERT_LE(file.scalars.size(), whole.size());
    EXPECT_TRUE(std::equal(file.scalars.begin(), file.scalars.end(), whole.begin()));
    if (file.damage.empty()) {
      ++undamaged;
    } else {
      EXPECT_TRUE(says(file.damage, {"the file ends within", path.string(),
                                     std::to_string(file.scalars.size()) + " values"}));
    }
  }
  EXPECT_EQ(undamaged, 5);  // where a record ends, nothing is missing
}

TEST(TensorBoardReader, EveryFlippedByteIsFound) {
  const TemporaryFolder folder;
  const std::string bytes = small_file();
  const auto whole = read(bytes).scalars;
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    SCOPED_TRACE(place);
    for (const int mask : {0x01, 0x80, 0xFF}) {
      std::string flipped = bytes;
      flipped[place] = static_cast<char>(flipped[place] ^ mask);
      const auto path = folder.write(fmt::format("{}.{}", place, mask), flipped);
      try {
        const EventFile file = read_event_file(path);
        EXPECT_NE(file.damage, "");
        ASSERT_LT(file.scalars.size(), whole.size());
        EXPECT_TRUE(std::equal(file.scalars.begin(), file.scalars.end(), whole.begin()));
      } catch (const InputError&) {
        EXPECT_LT(place, events::version().size());
      }
    }
  }
}

TEST(TensorBoardReader, DamageSaysWhereItIs) {
  const std::string start = events::version() + events::scalar("loss", 1, 1);
  std::string bytes = start + events::scalar("loss", 2, 2) + events::scalar("loss", 3, 3);
  bytes[start.size() + 20] ^= 1;
  const EventFile file = read(bytes);
  EXPECT_THAT(values_of(file.scalars), ElementsAre(1));
  EXPECT_TRUE(says(file.damage, {"checksum is wrong at byte " + std::to_string(start.size()) +
                                 " of " + std::to_string(bytes.size())}));
  EXPECT_TRUE(says(read(start + std::string(5, '\0')).damage, {"ends within"}));
  EXPECT_TRUE(says(read(start + std::string(12, '\0')).damage, {"length is wrong"}));
  // A record with a right checksum whose message is none.
  EXPECT_TRUE(says(read(start + events::record("\xff\xff")).damage, {"no event"}));
}

// No memory is taken for a length that the file can't hold, however right its checksum is.
TEST(TensorBoardReader, AnAbsurdLengthIsDamage) {
  for (const std::uint64_t length : {1ULL << 20, 1ULL << 30, 1ULL << 40, ~0ULL, ~0ULL - 15}) {
    const std::string head = events::raw(length);
    const EventFile file = read(events::version() + events::scalar("loss", 1, 1) + head +
                                events::raw(events::masked_crc32c(head)) + "some bytes");
    EXPECT_THAT(values_of(file.scalars), ElementsAre(1));
    EXPECT_TRUE(says(file.damage, {"bytes"}));
  }
}

TEST(TensorBoardReader, WhatIsNoEventFileIsSaid) {
  const TemporaryFolder folder;
  const auto message = [](const std::filesystem::path& path) {
    return message_of<InputError>([&] { (void)read_event_file(path); });
  };
  EXPECT_TRUE(says(message(folder.write("empty", "")), {"the file is empty"}));
  EXPECT_TRUE(says(message(folder.write("text", "epoch,loss\n1,0.5\n2,0.25\n")),
                   {"not an event file", "events.out.tfevents"}));
  EXPECT_TRUE(says(message(folder.write("short", "hi")), {"not an event file"}));
  // TFRecords of training samples: field 1 is a message there.
  EXPECT_TRUE(says(message(folder.write(
                       "samples", events::record(events::field(1, std::string_view("features"))))),
                   {"not an event file"}));
  EXPECT_TRUE(says(message(folder / "missing"), {"missing"}));
  EXPECT_TRUE(says(message(folder.path()), {"is a folder"}));
}

TEST(TensorBoardReader, LargeRecordsBetweenScalars) {
  using events::field;
  std::string bytes = events::version();
  for (int i = 0; i < 4; ++i) {
    bytes += events::scalar("loss", static_cast<float>(i), i);
    const std::string image(300000 * (1 + i % 2), static_cast<char>(i));
    bytes += events::summary(field(1, std::string_view("i")) + field(4, field(4, image)), i, 1000);
  }
  const EventFile file = read(bytes);
  EXPECT_THAT(values_of(file.scalars), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(file.other_values, 4);
  EXPECT_EQ(file.damage, "");
}

}  // namespace
}  // namespace kolo
