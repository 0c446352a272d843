#include <atomic>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "comm/watch/event_block.h"

namespace kolo {
namespace {

CollectiveCall call_number(std::uint64_t number) {
  CollectiveCall call;
  call.collective = Collective::all_reduce;
  call.number = number;
  call.name = fmt::format("bucket {}", number);
  return call;
}

TEST(EventBlock, ARecordIsNeverReadHalfWritten) {
  RecordCell cell{};
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (std::uint64_t number = 1; number <= 50'000; ++number) {
      CollectiveRecord record;
      record.number = number;
      record.count = static_cast<std::int64_t>(number);
      record.started = static_cast<std::int64_t>(number);
      cell.write(record);
    }
    is_over = true;
  });
  std::uint64_t torn = 0;
  while (!is_over) {
    const auto record = cell.read();
    const auto number = static_cast<std::int64_t>(record.number);
    if (record.count != number || record.started != number) ++torn;
  }
  writer.join();
  EXPECT_EQ(torn, 0U);
}

TEST(FlightRecorder, KeepsWhatRunsAndWhatWasCompletedLast) {
  const auto block = std::make_shared<EventBlock>();
  FlightRecorder recorder(block);
  for (std::uint64_t number = 1; number <= 200; ++number) {
    recorder.on_start(call_number(number));
    recorder.on_finish(call_number(number), number == 200);
  }
  recorder.on_start(call_number(201));
  // More are asked for than there is room: the one that runs stays.
  for (std::uint64_t number = 202; number <= 300; ++number) recorder.on_submit(call_number(number));
  const auto status = read_status(5, *block, 1'000'000'000'000);
  ASSERT_EQ(status.lanes.size(), 1U);
  EXPECT_EQ(status.lanes[0].running.number, 201U);
  EXPECT_STREQ(status.lanes[0].running.name.data(), "bucket 201");
  EXPECT_GT(status.longest_wait(), 0);
  const auto copy = from_bytes(to_bytes(status));
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->rank, 5);
  EXPECT_EQ(copy->lanes.at(0).running.number, 201U);
  EXPECT_FALSE(from_bytes(std::as_bytes(std::span("nonsense"))).has_value());
}

// A program may make any number of sets; the watch has to see the one that it waits in.
TEST(FlightRecorder, SeesMoreSetsThanThereAreLanes) {
  const auto block = std::make_shared<EventBlock>();
  FlightRecorder recorder(block);
  const auto call_of = [](std::uint32_t group, std::uint64_t number) {
    auto call = call_number(number);
    call.group = group;
    return call;
  };
  constexpr std::uint32_t sets = 2 * EventBlock::most_lanes;
  recorder.on_start(call_of(0, 1));  // is in it all the time
  for (std::uint32_t set = 1; set <= sets; ++set) {
    for (std::uint64_t number = 1; number <= 3; ++number) {
      recorder.on_start(call_of(set, number));
      recorder.on_finish(call_of(set, number), false);
    }
    if (set % 2 == 0) recorder.on_leave(call_of(set, 0));
  }
  recorder.on_start(call_of(sets + 1, 1));
  const auto status = read_status(0, *block, 1'000'000'000'000);
  const auto* const job = status.lane(Lane::identity_of(call_of(0, 1)));
  const auto* const last = status.lane(Lane::identity_of(call_of(sets + 1, 1)));
  const auto* const quiet = status.lane(Lane::identity_of(call_of(sets - 1, 1)));
  ASSERT_TRUE(job && last && quiet);
  EXPECT_EQ(job->running.number, 1U);
  EXPECT_EQ(last->running.number, 1U);
  EXPECT_EQ(last->completed.number, 0U) << "nothing of the set that had the lane before";
  EXPECT_EQ(last->has_left, 0U);
  EXPECT_EQ(quiet->completed.number, 3U) << "the one used last stays";
}

TEST(FlightRecorder, KeepsPendingTransfers) {
  const auto block = std::make_shared<EventBlock>();
  FlightRecorder recorder(block);
  const auto transfer = [](std::uint64_t number) {
    auto call = CollectiveCall::send(ConstBuffer(nullptr, 0, DataType::uint8), 1, 4);
    call.number = number;
    call.peer_in_job = 9;
    return call;
  };
  constexpr std::uint64_t more_than_it_keeps = EventBlock::most_transfers + 8;
  for (std::uint64_t number = 1; number <= more_than_it_keeps; ++number)
    recorder.on_submit(transfer(number));
  recorder.on_start(transfer(2));
  for (std::uint64_t number = 3; number <= more_than_it_keeps; ++number)
    recorder.on_finish(transfer(number), false);
  const auto status = read_status(5, *block, 1'000'000'000'000);
  ASSERT_EQ(status.lanes.size(), 2U);
  EXPECT_TRUE(Lane::is_of_transfer(status.lanes[0].identity));
  EXPECT_EQ(status.lanes[0].running.describe(),
            "transfer 1, send of 0 uint8 (0 bytes) to rank 9, tag 4");
  EXPECT_EQ(status.lanes[0].running.started, 0);
  EXPECT_NE(status.lanes[1].running.started, 0);
  EXPECT_GT(status.longest_wait(), 0);
}

}  // namespace
}  // namespace kolo
