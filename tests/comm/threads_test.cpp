#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "kolo/comm/topology.h"
#include "support/errors.h"

namespace kolo {

namespace {

TEST(Topology, UnevenAndInterleavedNodes) {
  const int ids[] = {40, 7, 40, 40, 7, 9};
  const auto topology = Topology::from_node_ids(3, ids);
  EXPECT_EQ(topology.size, 6);
  EXPECT_EQ(topology.nodes, 3);
  EXPECT_EQ(topology.node, 0);
  EXPECT_EQ(topology.local_rank, 2);
  EXPECT_EQ(topology.local_size, 3);
  EXPECT_EQ(topology.smallest_node(), 1);
  EXPECT_EQ(topology.node_of_rank, (std::vector<int>{0, 1, 0, 0, 1, 2}));
  EXPECT_EQ(Topology::from_node_ids(4, ids).describe(),
            "rank 4 of 6, local rank 1 of 2 on node 1 of 3");
}

using testing::message_of;

// A task may own the last reference to an object whose destructor makes calls.
TEST(ThreadRanksTasks, MayOwnWhatUsesTheCommunicatorAsItGoes) {
  run_as_threads(2, [](const Communicator& communicator) {
    std::promise<void> gone;
    const auto deleter = [&](const int* value) {
      std::default_delete<const int>()(value);
      const Work goodbye = communicator.barrier_async();
      gone.set_value();
    };
    std::shared_ptr<const int> owned(std::make_unique<const int>(1).release(), deleter);
    communicator.enqueue([owned = std::move(owned)](const Communicator&) { EXPECT_EQ(*owned, 1); })
        .wait();
    gone.get_future().wait();
    communicator.barrier();
  });
}

TEST(RunAsThreads, ARankThatBreaksEndsTheWaitingInAllSets) {
  const auto message = message_of<std::runtime_error>([] {
    run_as_threads(5, [](const Communicator& communicator) {
      const auto set = communicator.split(communicator.rank() / 2);
      const auto inner = set->split(0);
      if (communicator.rank() == 0) throw std::runtime_error("rank 0 broke");
      if (communicator.rank() == 1) inner->barrier();
      if (communicator.rank() == 2) set->barrier();
      EXPECT_THROW(communicator.barrier(), CommunicationError);
    });
  });
  EXPECT_EQ(message, "rank 0 broke");
}

TEST(RunAsThreads, AnAsynchronousFailureReachesTheWaiter) {
  run_as_threads(2, [](const Communicator& communicator) {
    std::vector<float> values(communicator.rank() == 0 ? 3 : 4);
    const Work work = communicator.all_reduce_async(std::span(values));
    EXPECT_THROW(work.wait(), Error);
    EXPECT_THROW((void)work.wait_for(std::chrono::seconds(1)), Error) << "every waiter gets it";
  });
}

TEST(RunAsThreads, WaitingHasALimit) {
  run_as_threads(2, [](const Communicator& communicator) {
    Work work;
    if (communicator.rank() == 0) {
      work = communicator.barrier_async();
      EXPECT_FALSE(work.wait_for(std::chrono::milliseconds(1)));
    }
    static std::atomic<bool> go;  // rank 1 comes only after rank 0 has given up once
    if (communicator.rank() == 0) go = true;
    while (!go) std::this_thread::yield();
    if (communicator.rank() == 1) communicator.barrier();
    work.wait();
  });
}

}  // namespace

}  // namespace kolo
