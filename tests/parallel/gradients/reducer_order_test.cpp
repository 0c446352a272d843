#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_reducer.h"
#include "parallel/gradients/reference_gradients.h"
#include "support/errors.h"
#include "support/rank_test.h"

namespace kolo::testing {

namespace {

// "asked bucket 0", "began bucket 0", ...
class Recorder final : public CollectiveListener {
 public:
  void on_submit(const CollectiveCall& call) noexcept override { note("asked", call); }
  void on_start(const CollectiveCall& call) noexcept override { note("began", call); }

  [[nodiscard]] std::vector<std::string> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  void note(const char* what, const CollectiveCall& call) noexcept {
    const std::lock_guard lock(mutex_);
    if (!call.name.empty()) events_.push_back(fmt::format("{} {}", what, call.name));
  }

  mutable std::mutex mutex_;
  std::vector<std::string> events_;
};

RANK_TEST(ReducerOrder, ListenersSeeEveryBucketInOrder) {
  if (communicator.size() == 1) return;
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(communicator, network, one_each);
  GradientReducer reducer(communicator, arena);
  const auto recorder = std::make_shared<Recorder>();
  communicator.add_listener(recorder);
  mean_loss(network, samples_of(communicator.rank(), 0)).backward();
  reducer.finish();
  communicator.remove_listener(recorder);
  const auto events = recorder->events();
  const auto place_of = [&](const std::string& event) {
    return std::find(events.begin(), events.end(), event) - events.begin();
  };
  std::ptrdiff_t last_asked = -1, last_began = -1;
  for (const std::string name :
       {"bucket 0", "bucket 1", "bucket 2", "bucket 3", "step agreement"}) {
    const auto asked = place_of("asked " + name);
    const auto began = place_of("began " + name);
    ASSERT_LT(began, std::ssize(events)) << name;
    EXPECT_LT(asked, began) << name;
    EXPECT_LT(last_asked, asked) << name;
    EXPECT_LT(last_began, began) << name;
    last_asked = asked;
    last_began = began;
  }
}

// Rank r has r + 1 batches.
RANK_TEST(ReducerOrder, RanksWithFewerBatchesJoin) {
  const Communicator checked = communicator.checked();
  SmallNetwork network;
  GradientReducer reducer(checked, network, {.buckets = one_each});
  for (int step = 0; step <= communicator.rank(); ++step) {
    reducer.clear_gradients();
    mean_loss(network, samples_of(communicator.rank(), step)).backward();
    reducer.finish();
    // Active are the ranks from `step` on: their mean, and not over all.
    auto expected = average_of_ranks<SmallNetwork>(
        communicator.size(), network, [&](SmallNetwork& alone, int rank) {
          if (rank >= step) mean_loss(alone, samples_of(rank, step)).backward();
        });
    for (auto& gradient : expected)
      gradient = gradient * communicator.size() / (communicator.size() - step);
    expect_gradients(network, expected);
  }
  EXPECT_EQ(checked.join(), communicator.size() - 1);
}

// Two halves of one network, each with a backward() in a thread of its own.
RANK_TEST(ReducerOrder, BackwardMayRunInSeveralThreads) {
  SmallNetwork network;
  GradientReducer reducer(communicator, network, {.buckets = one_each});
  for (std::int64_t step = 0; step < 5; ++step) {
    reducer.clear_gradients();
    const torch::Tensor input = samples_of(communicator.rank(), step);
    const auto loss_of_first = [&](SmallNetwork& of) { return of.first(input).square().sum(); };
    const auto loss_of_second = [](SmallNetwork& of, const torch::Tensor& hidden) {
      return of.second(hidden).square().sum();
    };
    const torch::Tensor hidden = torch::cat({input, input}, 1).narrow(1, 0, 7);
    std::thread other([&] { loss_of_first(network).backward(); });
    loss_of_second(network, hidden).backward();
    other.join();
    reducer.finish();
    expect_gradients(
        network,
        average_of_ranks<SmallNetwork>(
            communicator.size(), network, [&](SmallNetwork& alone, int rank) {
              const torch::Tensor theirs = samples_of(rank, step);
              alone.first(theirs).square().sum().backward();
              loss_of_second(alone, torch::cat({theirs, theirs}, 1).narrow(1, 0, 7)).backward();
            }));
  }
}

}  // namespace

}  // namespace kolo::testing
