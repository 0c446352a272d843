// The watch over collectives that a device does by itself beside the host's. The device is one of
// the test's own: it takes a collective at once, and has done it when all ranks have come to it and
// the test lets it.
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/device/device_sharing.h"
#include "comm/watch/stall.h"
#include "comm/watch/watch.h"
#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/watch_messages.h"

namespace kolo::testing {
namespace {

// State that the ranks' devices share: how many ranks have come to each collective.
struct Links {
  static constexpr std::size_t most = 8;
  int ranks = 0;
  std::array<std::atomic<int>, most> arrived{};
  std::atomic<bool> is_open = true;

  explicit Links(int of) : ranks(of) {}
};

class LinkEvent final : public DeviceEvent {
 public:
  LinkEvent(Links& links, std::size_t index) : links_(links), index_(index) {}
  [[nodiscard]] bool is_done() const override {
    return links_.is_open && links_.arrived[index_] == links_.ranks;
  }
  void wait() const override {
    while (!is_done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void hold_back(DeviceStream /*stream*/) const override {}

 private:
  Links& links_;
  std::size_t index_;
};

// A rank with such a device; the given communicator does the host's collectives.
class LinkedBackend final : public Backend {
 public:
  LinkedBackend(Communicator host, Links& links) : host_(std::move(host)), links_(links) {}

  [[nodiscard]] const Topology& topology() const override { return host_.topology(); }
  [[nodiscard]] Capabilities capabilities() const override { return host_.capabilities(); }
  void begin_on_device(CollectiveCall& /*call*/) const override {}
  [[nodiscard]] bool hands_over(const CallHeader& call) const override {
    return call.memory == MemoryKind::device;
  }
  [[nodiscard]] bool follow(const CollectiveCall& call, std::function<void()> started,
                            std::function<void(bool)> finished) override {
    poller_.add(call.order->ready, call.order->done, std::move(started), std::move(finished));
    return true;
  }
  void execute(const CollectiveCall& call) override {
    if (call.memory == MemoryKind::host) {
      if (call.collective == Collective::all_gather)
        return host_.all_gather(call.input, call.output);
      return host_.barrier();
    }
    ++links_.arrived[enqueued_];
    call.order->done = std::make_shared<LinkEvent>(links_, enqueued_++);
  }
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override {
    return host_.allocate_shared(static_cast<std::size_t>(call.count));
  }
  [[nodiscard]] std::shared_ptr<Backend> split(int /*color*/, int /*key*/) override {
    return nullptr;
  }
  void abort(int exit_code, std::string_view) noexcept override { host_.abort(exit_code); }

 private:
  Communicator host_;
  Links& links_;
  std::size_t enqueued_ = 0;
  CompletionPoller poller_;
};

// Runs the body on ranks with such devices, watched.
void run_linked(Links& links, const WatchOptions& options,
                const std::function<void(const Communicator&)>& body) {
  run_as_threads(links.ranks, [&](const Communicator& host) {
    const auto backend = std::make_shared<LinkedBackend>(host, links);
    const Communicator communicator(backend);
    const auto watch = std::make_shared<Watch>(backend, options);
    communicator.add_listener(Watch::listener_of(watch));
    body(communicator);
    host.barrier();  // nobody's watch ends while another looks
    watch->stop();   // the device may keep it for a while: it tells it of ends
  });
}

Work reduce_on_device(const Communicator& communicator, const std::string& name) {
  static float nothing = 0;
  return communicator.all_reduce_async(Buffer::on_device(&nothing, 1, DataType::float32, nullptr),
                                       ReduceOp::sum, {.name = name});
}

TEST(DeviceWatch, NamesWhoHasNotComeThoughTheHostsCollectivesGoOn) {
  const std::vector<std::string> told{"bucket 2",
                                      "arrived: rank 0, 2; not arrived: rank 1 last completed"};
  WatchMessages messages;
  Links links(3);
  run_linked(links, messages.options(.05), [&](const Communicator& communicator) {
    reduce_on_device(communicator, "bucket 1").wait();
    if (communicator.rank() != 1) reduce_on_device(communicator, "bucket 2").wait();
    for (int i = 0; i < 3; ++i) communicator.barrier();
    messages.wait_for(told);
    if (communicator.rank() == 1) reduce_on_device(communicator, "bucket 2").wait();
    messages.wait_for({"bucket 2", "went on after"});
  });
  EXPECT_TRUE(says(messages.wait_for(told),
                   {"of 1 float32 in device memory, \"bucket 2\"", "\"bucket 1\""}));
}

// The communication thread asks the device for checked calls, and the device continues after that.
TEST(DeviceWatch, OfCheckedCallsLastsUntilTheDeviceHasDoneThem) {
  WatchMessages messages;
  Links links(2);
  links.is_open = false;
  run_linked(links, messages.options(.05), [&](const Communicator& plain) {
    const auto communicator = plain.checked();
    const auto work = reduce_on_device(communicator, "bucket 1");
    work.wait();
    EXPECT_FALSE(work.is_done());
    plain.barrier();  // all have looked before one of them lets the device go on
    messages.wait_for({"\"bucket 1\"", "arrived: rank 0-1, which is all; it does not end"});
    links.is_open = true;
    messages.wait_for({"\"bucket 1\"", "went on after"});
    EXPECT_TRUE(work.is_done());
  });
}

TEST(DeviceWatch, AtTheLimitFilesTellOfDevicesAndTheJobEnds) {
  WatchMessages messages;
  Links links(2);
  EXPECT_THROW(run_linked(links, messages.options(.1, 1),
                          [&](const Communicator& communicator) {
                            if (communicator.rank() == 0)
                              reduce_on_device(communicator, "bucket 9").wait();
                            while (true) {
                              std::this_thread::sleep_for(std::chrono::milliseconds(1));
                              communicator.barrier();
                            }
                          }),
               CommunicationError);
  EXPECT_TRUE(
      says(messages.file_of(0), {"all ranks of the job, on devices' memory", "\"bucket 9\""}));
  EXPECT_THAT(messages.file_of(1), AllOf(HasSubstr("barrier"), Not(HasSubstr("bucket 9"))));
}

// The others get all that a rank has given its device, also after it has left.
TEST(DeviceWatch, DoesNotMissARankThatHasLeftWhatItHasAskedFor) {
  constexpr std::int64_t second = 1'000'000'000;
  const auto identity = [](MemoryKind memory) {
    CollectiveCall call;
    call.memory = memory;
    return Lane::identity_of(call);
  };
  std::vector<RankStatus> statuses(2);
  statuses[0].lanes = {{.identity = identity(MemoryKind::host)},
                       {.identity = identity(MemoryKind::device), .waiting = 2 * second}};
  statuses[0].lanes[1].running.number = 9;
  statuses[1].rank = 1;
  statuses[1].lanes = {{.identity = identity(MemoryKind::host), .has_left = 1},
                       {.identity = identity(MemoryKind::device), .has_left = 1, .asked = 9}};
  EXPECT_EQ(find_departure(statuses, second), std::nullopt);
  statuses[1].lanes[1].asked = 8;
  EXPECT_TRUE(says(find_departure(statuses, second).value_or(""), {"rank 1 has left"}));
  statuses[1].lanes.pop_back();
  EXPECT_TRUE(says(find_departure(statuses, second).value_or(""), {"rank 1 has left"}));
}

}  // namespace
}  // namespace kolo::testing
