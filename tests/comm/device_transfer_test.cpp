// Messages between two ranks whose buffers are on a device.
#include <vector>

#include "comm/floats_on_device.h"
#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/simulated_device/runtime.h"

namespace kolo::testing {
namespace {

constexpr std::int64_t count = 50'003;

using Values = FloatsOnDevice<count>;

void on_devices(int ranks, const std::function<void(const Communicator&)>& body) {
  run_as_threads(ranks, body,
                 {.staging_bytes = 1 << 16, .devices = {.runtime = simulated::runtime()}});
}

// A send takes what the stream's work before has made; a receive is there for its work after.
TEST(DeviceTransfers, KeepTheOrderOfTheStream) {
  on_devices(3, [](const Communicator& communicator) {
    const int size = communicator.size(), rank = communicator.rank();
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const auto runtime = simulated::runtime();
    const auto stream = runtime->make_stream(0);
    const Values mine, theirs;
    for (int round = 0; round < 8; ++round) {
      const auto value_of = [&](int of) { return static_cast<float>(10 * round + of); };
      simulated::give(stream.get(), [&] {
        mine.fill(value_of(rank));
        theirs.fill(-1);
      });
      const Work work = communicator.exchange_async(
          std::vector{Transfer::receive(theirs.buffer(stream.get()), before),
                      Transfer::send(mine.buffer(stream.get()), next)});
      work.wait();
      std::vector<float> seen;
      simulated::give(stream.get(), [&] { seen = theirs.values(); });
      runtime->record(0, stream.get())->wait();
      EXPECT_THAT(seen, Each(value_of(before)));
    }
  });
}

TEST(DeviceTransfers, MayHaveTheHostsMemoryAtTheOtherEnd) {
  on_devices(2, [](const Communicator& communicator) {
    const auto runtime = simulated::runtime();
    const auto stream = runtime->make_stream(0);
    if (communicator.rank() == 0) {
      const Values values;
      simulated::give(stream.get(), [&] { values.fill(3); });
      communicator.send(values.buffer(stream.get()), 1, 2);
      communicator.send(values.buffer(stream.get(), 0), 1, 2);
    } else {
      std::vector<float> values(count);
      communicator.receive(std::span(values), 0, 2);
      EXPECT_THAT(values, Each(3));
      communicator.receive(std::span(values).first(0), 0, 2);
    }
  });
}

// A collective that waits for other ranks on the device does not keep transfers.
TEST(DeviceTransfers, StandOutsideTheOrderOfCollectives) {
  on_devices(2, [](const Communicator& communicator) {
    const auto runtime = simulated::runtime();
    const auto stream = runtime->make_stream(0), other = runtime->make_stream(0);
    const Values sums, values;
    sums.fill(1);
    values.fill(7);
    communicator.barrier();
    Work reducing;
    if (communicator.rank() == 0) {
      reducing = communicator.all_reduce_async(sums.buffer(stream.get()));
      communicator.send(values.buffer(other.get()), 1);
    } else {
      values.fill(0);
      communicator.receive(values.buffer(other.get()), 0);
      runtime->record(0, other.get())->wait();
      EXPECT_THAT(values.values(), Each(7));
      reducing = communicator.all_reduce_async(sums.buffer(stream.get()));
    }
    reducing.wait();
    runtime->record(0, stream.get())->wait();
    EXPECT_THAT(sums.values(), Each(2));
  });
}

TEST(DeviceTransfers, OfOtherCountsAreToldOnBothEnds) {
  on_devices(2, [](const Communicator& communicator) {
    const auto stream = simulated::runtime()->make_stream(0);
    const Values values;
    EXPECT_TRUE(says(message_of<Error>([&] {
                       if (communicator.rank() == 0)
                         communicator.send(values.buffer(stream.get(), 4), 1);
                       else
                         communicator.receive(values.buffer(stream.get(), 5), 0);
                     }),
                     {"rank 0 sends 4 float32, and rank 1 receives 5 float32"}));
  });
}

TEST(DeviceTransfers, NeedADevice) {
  run_as_threads(2, [](const Communicator& communicator) {
    std::vector<float> values(4);
    const auto on_no_device = Buffer::on_device(values.data(), 4, DataType::float32, nullptr);
    EXPECT_THROW((void)communicator.send_async(on_no_device, 1 - communicator.rank()), Error);
    communicator.barrier();
  });
}

}  // namespace
}  // namespace kolo::testing
