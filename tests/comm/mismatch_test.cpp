#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// The ranks before the last one, as a message names them.
std::string others_of(const Communicator& communicator) {
  const int last = communicator.size() - 1;
  return last == 1 ? "rank 0" : fmt::format("ranks 0-{}", last - 1);
}

bool is_last(const Communicator& communicator) {
  return communicator.rank() == communicator.size() - 1;
}

// The last rank makes another call than the rest: every rank gets the same message, and the
// communicator still works.
void expect_named(const Communicator& communicator, const std::function<void()>& call,
                  const std::string& usual, const std::string& odd) {
  const auto words = fmt::format("comm: ranks called different collectives: {} {}; rank {} {}; all",
                                 others_of(communicator), usual, communicator.size() - 1, odd);
  EXPECT_TRUE(says(message_of<Error>(call), {words}));
  std::int64_t one = 1;
  communicator.all_reduce(std::span(&one, 1));
  EXPECT_EQ(one, communicator.size());
}

using Pair = std::pair<const char*, const char*>;

// The same function with two sets of arguments.
template <typename Call, typename Argument>
void expect_arguments_named(const Communicator& plain, const Call& call, Argument usual,
                            Argument odd, const Pair& words) {
  if (plain.size() == 1) return;
  const auto communicator = plain.checked();
  expect_named(
      communicator, [&] { call(communicator, is_last(communicator) ? odd : usual); }, words.first,
      words.second);
}

void all_reduce_of(const Communicator& communicator, std::size_t count) {
  std::vector<float> values(count);
  communicator.all_reduce(std::span(values));
}

RANK_TEST(Mismatch, DifferentCounts) {
  expect_arguments_named(communicator, all_reduce_of, std::size_t{4}, std::size_t{50000},
                         {"all-reduce (sum) of 4 float32", "all-reduce (sum) of 50000 float32"});
  expect_arguments_named(communicator, all_reduce_of, std::size_t{4}, std::size_t{0},
                         {"all-reduce (sum) of 4 float32", "all-reduce (sum) of 0 float32"});
  const auto gather = [](const Communicator& checked, std::size_t count) {
    const std::vector<double> input(count);
    std::vector<double> output(count * static_cast<std::size_t>(checked.size()));
    checked.all_gather(std::span(input), std::span(output));
  };
  expect_arguments_named(communicator, gather, std::size_t{3}, std::size_t{2},
                         {"all-gather of 3 float64", "all-gather of 2 float64"});
}

RANK_TEST(Mismatch, DifferentTypes) {
  const auto reduce = [](const Communicator& checked, DataType type) {
    std::vector<std::byte> values(4 * size_of(type));
    checked.all_reduce(Buffer(values.data(), 4, type), ReduceOp::max);
  };
  // As many bytes: nothing but the words can tell.
  expect_arguments_named(communicator, reduce, DataType::float32, DataType::int32,
                         {"all-reduce (max) of 4 float32", "all-reduce (max) of 4 int32"});
  expect_arguments_named(communicator, reduce, DataType::float16, DataType::bfloat16,
                         {"all-reduce (max) of 4 float16", "all-reduce (max) of 4 bfloat16"});
}

RANK_TEST(Mismatch, DifferentOperations) {
  const auto scatter = [](const Communicator& checked, ReduceOp op) {
    const std::vector<float> input(static_cast<std::size_t>(checked.size()));
    float output = 0;
    checked.reduce_scatter(std::span(input), std::span(&output, 1), op);
  };
  const auto words = [&](const char* op) {
    return fmt::format("reduce-scatter ({}) of {} float32", op, communicator.size());
  };
  const auto usual = words("average"), odd = words("product");
  expect_arguments_named(communicator, scatter, ReduceOp::average, ReduceOp::product,
                         {usual.c_str(), odd.c_str()});
}

RANK_TEST(Mismatch, DifferentRoots) {
  const auto broadcast = [](const Communicator& checked, int root) {
    float value = 0;
    checked.broadcast(std::span(&value, 1), root);
  };
  expect_arguments_named(
      communicator, broadcast, 0, 1,
      {"broadcast (from root 0) of 1 float32", "broadcast (from root 1) of 1 float32"});
}

RANK_TEST(Mismatch, DifferentCollectives) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  expect_named(
      checked, [&] { is_last(checked) ? checked.barrier() : all_reduce_of(checked, 4); },
      "all-reduce (sum) of 4 float32", "barrier");
  expect_named(
      checked,
      [&] {
        if (is_last(checked))
          (void)checked.allocate(640);
        else
          (void)checked.allocate_shared(640);
      },
      "allocate of 640 bytes, shared", "allocate of 640 bytes");
  expect_named(
      checked,
      [&] {
        if (is_last(checked))
          (void)checked.allocate_for_node(640);
        else
          (void)checked.allocate_shared(640);
      },
      "allocate of 640 bytes, shared", "allocate of 640 bytes, one for a node");
}

RANK_TEST(Mismatch, DifferentOrder) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  std::vector<int> small(2), large(3);
  auto& first = is_last(checked) ? large : small;
  auto& second = is_last(checked) ? small : large;
  const Work one = checked.all_reduce_async(std::span(first));
  const Work other = checked.all_reduce_async(std::span(second));
  EXPECT_TRUE(says(message_of<Error>([&] { one.wait(); }), {"different collectives"}));
  EXPECT_TRUE(says(message_of<Error>([&] { other.wait(); }), {"different collectives"}));
  checked.barrier();
}

// Each rank has its own idea of the counts, which add up to the same.
RANK_TEST(Mismatch, DifferentCountsByRank) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator.size()), 2);
  if (is_last(checked)) {
    ++counts.front();
    --counts.back();
  }
  const std::vector<float> input(static_cast<std::size_t>(is_last(checked) ? 1 : 2));
  std::vector<float> output(2 * counts.size());
  EXPECT_TRUE(
      says(message_of<Error>(
               [&] { checked.all_gather_uneven(std::span(input), std::span(output), counts); }),
           {others_of(checked) + " [2, 2", fmt::format("rank {} [3", communicator.size() - 1)}));
  checked.barrier();
}

RANK_TEST(Mismatch, AnAllToAllWithOtherCounts) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  std::vector<std::int64_t> sent(static_cast<std::size_t>(communicator.size()), 1);
  auto received = sent;
  if (is_last(checked)) received.front() = 4;
  const std::vector<std::int32_t> input(sent.size());
  std::vector<std::int32_t> output(input.size() + (is_last(checked) ? 3 : 0));
  EXPECT_TRUE(says(
      message_of<Error>(
          [&] { checked.all_to_all(std::span(input), sent, std::span(output), received); }),
      {fmt::format("rank 0 sends 1 int32 to rank {}, which expects 4", communicator.size() - 1)}));
  checked.barrier();
}

// Without checked(), wherever ranks are: nothing has been moved, and the communicator still works.
RANK_TEST(PlainMismatch, IsAnErrorOnAllRanks) {
  if (communicator.size() == 1) return;
  std::vector<float> floats(64, 1);
  std::vector<std::int32_t> numbers(64, 1);
  const auto sum_floats = [&] { communicator.all_reduce(std::span(floats).first(4)); };
  const auto broadcast = [&](int root) {
    communicator.broadcast(std::span(floats).first(4), root);
  };
  const auto expect_both = [&](const std::function<void()>& usual, const std::function<void()>& odd,
                               const std::string& usual_words, const std::string& odd_words) {
    EXPECT_TRUE(says(message_of<Error>([&] { is_last(communicator) ? odd() : usual(); }),
                     {"ranks called different collectives", " " + usual_words, " " + odd_words}));
    EXPECT_EQ(all_reduce_value(communicator, 1), communicator.size());
  };
  // Twice, as what has been called before may be called in the wrong place, too.
  for (int round = 0; round < 2; ++round) {
    sum_floats();
    broadcast(0);
    floats.assign(64, 1);
    expect_both(
        sum_floats, [&] { communicator.all_reduce(std::span(numbers).first(4)); },
        "all-reduce (sum) of 4 float32", "all-reduce (sum) of 4 int32");
    expect_both(
        sum_floats, [&] { communicator.all_reduce(std::span(floats).first(5)); },
        "all-reduce (sum) of 4 float32", "all-reduce (sum) of 5 float32");
    expect_both(
        sum_floats, [&] { broadcast(0); }, "all-reduce (sum) of 4 float32",
        "broadcast (from root 0) of 4 float32");
    expect_both([&] { broadcast(0); }, [&] { broadcast(1); },
                "broadcast (from root 0) of 4 float32", "broadcast (from root 1) of 4 float32");
    if (communicator.capabilities().backend != "threads") {  // whose allocations meet nobody
      expect_both([&] { communicator.barrier(); }, [&] { (void)communicator.allocate(640); },
                  "barrier", "allocate of 640 bytes");
    }
    expect_both([&] { communicator.barrier(); }, [&] { (void)communicator.split(0); }, "barrier",
                "split");
    EXPECT_THAT(floats, ::testing::Each(1.F));
  }
}

RANK_TEST(Mismatch, ACheckedCommunicatorIsItself) {
  const auto checked = communicator.checked();
  EXPECT_FALSE(communicator.is_checked());
  EXPECT_TRUE(checked.is_checked());
  EXPECT_TRUE(checked.checked().is_checked());
  EXPECT_EQ(checked.group(), communicator.group());
  EXPECT_EQ(checked.active_ranks(), communicator.size());
  // Both handles keep one order.
  std::vector<float> large(100000, 1);
  const Work work = communicator.all_reduce_async(std::span(large));
  checked.barrier();
  EXPECT_TRUE(work.is_done());
}

}  // namespace

}  // namespace kolo::testing
