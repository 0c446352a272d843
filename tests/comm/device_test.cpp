// Collectives on a device's memory: their order among the work of streams, and refused ones. Their
// values are tested with the host's (rank_settings.cpp).
#include <atomic>
#include <string>
#include <vector>

#include "comm/floats_on_device.h"
#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/simulated_device/runtime.h"
#include "support/watch_messages.h"

namespace kolo::testing {
namespace {

constexpr std::int64_t count = 5000;

ThreadRanksOptions with_devices(DeviceChannelKind channel = DeviceChannelKind::automatic) {
  return {.devices = {.channel = channel, .staging_bytes = 4096, .runtime = simulated::runtime()}};
}

void on_devices(int ranks, const std::function<void(const Communicator&)>& body) {
  run_as_threads(ranks, body, with_devices());
}

using DeviceValues = FloatsOnDevice<count>;

// The input is still on its way to the device when the collective is asked for, and a later copy in
// the stream takes the result along.
TEST(DeviceCollectives, KeepTheOrderOfTheStream) {
  on_devices(3, [](const Communicator& communicator) {
    const auto runtime = simulated::runtime();
    const auto stream = runtime->make_stream(0);
    const DeviceValues values;
    std::vector<float> input(count), result(count);
    for (int round = 0; round < 5; ++round) {
      std::fill(input.begin(), input.end(), static_cast<float>(communicator.rank() + round));
      runtime->copy(0, values.get(), input.data(), count * sizeof(float), stream.get());
      const auto work = communicator.all_reduce_async(values.buffer(stream.get()));
      work.wait();
      runtime->copy(0, result.data(), values.get(), count * sizeof(float), stream.get());
      runtime->record(0, stream.get())->wait();
      EXPECT_THAT(result, Each(static_cast<float>(3 + 3 * round)));
      EXPECT_TRUE(work.is_done());
    }
  });
}

TEST(DeviceCollectives, AreMixedWithThoseOfTheHost) {
  on_devices(2, [](const Communicator& communicator) {
    const DeviceValues first, second;
    first.fill(1);
    second.fill(static_cast<float>(communicator.rank()));
    std::vector<int> of_host(10, 1);
    const auto works = std::vector<Work>{
        communicator.all_reduce_async(first.buffer()),
        communicator.all_reduce_async(std::span(of_host)),
        communicator.broadcast_async(second.buffer(), 1),
    };
    for (const auto& work : works) work.wait();
    EXPECT_THAT(first.values(), Each(2));
    EXPECT_THAT(second.values(), Each(1));
    EXPECT_THAT(of_host, Each(2));
  });
}

TEST(DeviceCollectives, MayHaveNoElements) {
  on_devices(2, [](const Communicator& communicator) {
    communicator.all_reduce(Buffer::on_device(nullptr, 0, DataType::float32, nullptr));
  });
}

// Also the first collective, which makes the channel, and one with more elements than go at a time.
TEST(DeviceCollectives, AgainstHostMemoryAreAMismatchOnAllRanks) {
  std::atomic<int> told = 0;
  const auto body = [&](const Communicator& communicator) {
    const DeviceValues values;
    std::vector<float> of_host(count);
    const auto differ = [&] {
      if (communicator.rank() == 1)
        communicator.all_reduce(std::span(of_host));
      else
        communicator.all_reduce(values.buffer());
    };
    EXPECT_TRUE(says(message_of<Error>(differ), {"in device memory", "rank 1"}));
    communicator.all_reduce(values.buffer());
    EXPECT_TRUE(says(message_of<Error>(differ), {"different collectives"}));
    ++told;
  };
  on_devices(3, body);
  EXPECT_EQ(told, 3);
  on_devices(3, [&](const Communicator& communicator) { body(communicator.checked()); });
  EXPECT_EQ(told, 6);
}

TEST(DeviceCollectives, NeedADevice) {
  std::vector<float> values(4), others(4);
  const auto no_device = Buffer::on_device(values.data(), 4, DataType::float32, nullptr);
  const auto communicator = Communicator::solo();
  EXPECT_THAT(message_of<Error>([&] { communicator.broadcast(no_device); }),
              AnyOf(HasSubstr("given a device's memory, but kolo was built without CUDA"),
                    HasSubstr("cuda: ")));
  EXPECT_TRUE(
      says(message_of<Error>([&] { communicator.all_gather(no_device, std::span(others)); }),
           {"the input is in device memory and the output in host memory"}));
}

TEST(DeviceCollectives, KeepToOneDevice) {
  const auto communicator = Communicator::solo({.runtime = simulated::runtime()});
  const DeviceValues first(0), second(1);
  EXPECT_TRUE(
      says(message_of<Error>([&] { communicator.all_gather(first.buffer(), second.buffer()); }),
           {"the input is on simulated device 0, the output on device 1"}));
  communicator.all_reduce(first.buffer());
  EXPECT_TRUE(says(message_of<Error>([&] { communicator.all_reduce(second.buffer()); }),
                   {"the buffers are on simulated device 1, but this communicator's first "
                    "collective was on device 0"}));
}

TEST(DeviceCollectives, OtherCountsAreAMismatchOnAllRanks) {
  on_devices(2, [](const Communicator& communicator) {
    const DeviceValues input, output;
    EXPECT_THROW(communicator.all_reduce(input.buffer(nullptr, 3000 + communicator.rank())), Error);
    const std::int64_t counts[] = {10, 20 + communicator.rank()};
    EXPECT_THROW(
        communicator.all_gather_uneven(input.buffer(nullptr, counts[communicator.rank()]),
                                       output.buffer(nullptr, counts[0] + counts[1]), counts),
        Error);
    input.fill(1);
    communicator.all_reduce(input.buffer(nullptr, 3000));
    EXPECT_EQ(input.values()[2999], 2);
  });
}

// Its host has asked for the collective, as all have.
TEST(DeviceCollectives, TheWatchNamesARankWhoseDeviceIsLate) {
  const std::vector<std::string> told{"bucket 1", "not arrived: rank 1 last completed call 1"};
  WatchMessages messages;
  auto options = with_devices();
  options.watch = messages.options(.05);
  run_as_threads(
      2,
      [&](const Communicator& communicator) {
        const DeviceValues values;
        const auto stream = simulated::runtime()->make_stream(0);
        communicator.all_reduce(values.buffer(stream.get()));
        if (communicator.rank() == 1)
          simulated::give(stream.get(), [&] { messages.wait_for(told); });
        communicator.all_reduce(values.buffer(stream.get()), ReduceOp::sum, {.name = "bucket 1"});
      },
      options);
  EXPECT_TRUE(says(messages.wait_for(told), {"\"bucket 1\"; arrived: rank 0; not arrived: "}));
}

// Ranks let go of sets when they like, while others still read their memory.
TEST(DeviceCollectives, GiveAllMemoryBack) {
  const auto before = simulated::allocated_bytes();
  on_devices(3, [](const Communicator& communicator) {
    const DeviceValues values;
    for (int round = 0; round < 3; ++round) {
      auto set = communicator.split(0, communicator.rank());
      values.fill(1);
      set->all_reduce(values.buffer());
      if (communicator.rank() != round) set.reset();
      communicator.all_reduce(values.buffer());
      EXPECT_THAT(values.values(), Each(9));
    }
  });
  EXPECT_EQ(simulated::allocated_bytes(), before);
}

// Transport of a collective on a device, with these options on all ranks.
std::string transport_with(const ThreadRanksOptions& options) {
  std::string transport;
  run_as_threads(
      3,
      [&](const Communicator& communicator) {
        const DeviceValues values;
        values.fill(1);
        communicator.all_reduce(values.buffer());
        EXPECT_THAT(values.values(), Each(3));
        if (communicator.rank() == 0) transport = communicator.capabilities().device_transport;
      },
      options);
  return transport;
}

TEST(DeviceChannelChoice, IsStagedWhereThereIsNoNccl) {
  const auto staged = AllOf(HasSubstr("pinned memory"), HasSubstr("memory of one process"),
                            HasSubstr("the host waits: once a call, and every 4 KiB"));
  EXPECT_THAT(transport_with(with_devices()),
              AllOf(staged, HasSubstr("not NCCL: rank 0's kolo was built without it")));
  EXPECT_THAT(transport_with(with_devices(DeviceChannelKind::staged)),
              AllOf(staged, Not(HasSubstr("not "))))
      << "it was asked for";
}

TEST(DeviceChannelChoice, GoesOnWhereNoMemoryCanBePinned) {
  auto options = with_devices();
  options.devices.runtime = simulated::runtime_without_pinning();
  EXPECT_TRUE(says(transport_with(options), {"memory (which can't be pinned) of the host"}));
}

TEST(DeviceChannelChoice, IsNoneForOneRank) {
  const auto communicator = Communicator::solo({.runtime = simulated::runtime()});
  const DeviceValues input, output;
  input.fill(3);
  communicator.all_gather(input.buffer(), output.buffer());
  communicator.all_reduce(output.buffer(), ReduceOp::average);
  EXPECT_THAT(output.values(), Each(3));
  EXPECT_TRUE(says(communicator.capabilities().device_transport, {"one rank"}));
}

TEST(DeviceChannelChoice, WhatCanNotBeIsRefusedOnAllRanks) {
  std::atomic<int> told = 0;
  run_as_threads(
      2,
      [&](const Communicator& communicator) {
        const DeviceValues values;
        EXPECT_TRUE(says(message_of<InputError>([&] { communicator.all_reduce(values.buffer()); }),
                         {"NCCL was asked for, but", "use the channel auto or staged"}));
        ++told;
      },
      with_devices(DeviceChannelKind::nccl));
  EXPECT_EQ(told, 2);
}

// Joined ranks have no values of their own, wherever the others' are.
TEST(DeviceCollectives, GoOnWithoutRanksThatHaveJoined) {
  on_devices(3, [](const Communicator& plain) {
    const auto communicator = plain.checked();
    const DeviceValues values;
    const int rounds = 1 + communicator.rank();
    for (int round = 0; round < rounds; ++round) {
      values.fill(static_cast<float>(communicator.rank()));
      communicator.all_reduce(values.buffer(), ReduceOp::average);
      const float of_those_left[] = {1, 1.5F, 2};
      EXPECT_THAT(values.values(), Each(of_those_left[round]));
    }
    EXPECT_EQ(communicator.join(), 2);
  });
}

}  // namespace
}  // namespace kolo::testing
