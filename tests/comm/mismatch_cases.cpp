#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "comm/collective_cases.h"
#include "comm/negotiation_cases.h"
#include "comm/set_cases.h"
#include "kolo/base/error.h"
#include "support/errors.h"

namespace kolo::testing {

namespace {

using ::testing::HasSubstr;

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
  EXPECT_THAT(message_of<Error>(call), HasSubstr(words));
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

void different_counts(const Communicator& plain) {
  expect_arguments_named(plain, all_reduce_of, std::size_t{4}, std::size_t{50000},
                         {"all-reduce (sum) of 4 float32", "all-reduce (sum) of 50000 float32"});
  expect_arguments_named(plain, all_reduce_of, std::size_t{4}, std::size_t{0},
                         {"all-reduce (sum) of 4 float32", "all-reduce (sum) of 0 float32"});
  const auto gather = [](const Communicator& communicator, std::size_t count) {
    const std::vector<double> input(count);
    std::vector<double> output(count * static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(std::span(input), std::span(output));
  };
  expect_arguments_named(plain, gather, std::size_t{3}, std::size_t{2},
                         {"all-gather of 3 float64", "all-gather of 2 float64"});
}

void different_types(const Communicator& plain) {
  const auto reduce = [](const Communicator& communicator, DataType type) {
    std::vector<std::byte> values(4 * size_of(type));
    communicator.all_reduce(Buffer(values.data(), 4, type), ReduceOp::max);
  };
  // As many bytes: nothing but the words can tell.
  expect_arguments_named(plain, reduce, DataType::float32, DataType::int32,
                         {"all-reduce (max) of 4 float32", "all-reduce (max) of 4 int32"});
  expect_arguments_named(plain, reduce, DataType::float16, DataType::bfloat16,
                         {"all-reduce (max) of 4 float16", "all-reduce (max) of 4 bfloat16"});
}

void different_operations(const Communicator& plain) {
  const auto scatter = [](const Communicator& communicator, ReduceOp op) {
    const std::vector<float> input(static_cast<std::size_t>(communicator.size()));
    float output = 0;
    communicator.reduce_scatter(std::span(input), std::span(&output, 1), op);
  };
  const auto words = [&](const char* op) {
    return fmt::format("reduce-scatter ({}) of {} float32", op, plain.size());
  };
  const auto usual = words("average"), odd = words("product");
  expect_arguments_named(plain, scatter, ReduceOp::average, ReduceOp::product,
                         {usual.c_str(), odd.c_str()});
}

void different_roots(const Communicator& plain) {
  const auto broadcast = [](const Communicator& communicator, int root) {
    float value = 0;
    communicator.broadcast(std::span(&value, 1), root);
  };
  expect_arguments_named(
      plain, broadcast, 0, 1,
      {"broadcast (from root 0) of 1 float32", "broadcast (from root 1) of 1 float32"});
}

void different_collectives(const Communicator& plain) {
  if (plain.size() == 1) return;
  const auto communicator = plain.checked();
  expect_named(
      communicator,
      [&] { is_last(communicator) ? communicator.barrier() : all_reduce_of(communicator, 4); },
      "all-reduce (sum) of 4 float32", "barrier");
  expect_named(
      communicator,
      [&] {
        if (is_last(communicator))
          (void)communicator.allocate(640);
        else
          (void)communicator.allocate_shared(640);
      },
      "allocate of 640 bytes, shared", "allocate of 640 bytes");
  expect_named(
      communicator,
      [&] {
        if (is_last(communicator))
          (void)communicator.allocate_for_node(640);
        else
          (void)communicator.allocate_shared(640);
      },
      "allocate of 640 bytes, shared", "allocate of 640 bytes, one for a node");
}

void different_order(const Communicator& plain) {
  if (plain.size() == 1) return;
  const auto communicator = plain.checked();
  std::vector<int> small(2), large(3);
  auto& first = is_last(communicator) ? large : small;
  auto& second = is_last(communicator) ? small : large;
  const Work one = communicator.all_reduce_async(std::span(first));
  const Work other = communicator.all_reduce_async(std::span(second));
  EXPECT_THAT(message_of<Error>([&] { one.wait(); }), HasSubstr("different collectives"));
  EXPECT_THAT(message_of<Error>([&] { other.wait(); }), HasSubstr("different collectives"));
  communicator.barrier();
}

// Each rank has its own idea of the counts, which add up to the same.
void different_counts_by_rank(const Communicator& plain) {
  if (plain.size() == 1) return;
  const auto communicator = plain.checked();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(plain.size()), 2);
  if (is_last(communicator)) {
    ++counts.front();
    --counts.back();
  }
  const std::vector<float> input(static_cast<std::size_t>(is_last(communicator) ? 1 : 2));
  std::vector<float> output(2 * counts.size());
  EXPECT_THAT(message_of<Error>([&] {
                communicator.all_gather_uneven(std::span(input), std::span(output), counts);
              }),
              ::testing::AllOf(HasSubstr(others_of(communicator) + " [2, 2"),
                               HasSubstr(fmt::format("rank {} [3", plain.size() - 1))));
  communicator.barrier();
}

void an_all_to_all_with_other_counts_than_expected(const Communicator& plain) {
  if (plain.size() == 1) return;
  const auto communicator = plain.checked();
  std::vector<std::int64_t> sent(static_cast<std::size_t>(plain.size()), 1);
  auto received = sent;
  if (is_last(communicator)) received.front() = 4;
  const std::vector<std::int32_t> input(sent.size());
  std::vector<std::int32_t> output(input.size() + (is_last(communicator) ? 3 : 0));
  EXPECT_THAT(
      message_of<Error>(
          [&] { communicator.all_to_all(std::span(input), sent, std::span(output), received); }),
      HasSubstr(fmt::format("rank 0 sends 1 int32 to rank {}, which expects 4", plain.size() - 1)));
  communicator.barrier();
}

void a_checked_communicator_is_itself(const Communicator& plain) {
  const auto communicator = plain.checked();
  EXPECT_FALSE(plain.is_checked());
  EXPECT_TRUE(communicator.is_checked());
  EXPECT_TRUE(communicator.checked().is_checked());
  EXPECT_EQ(communicator.group(), plain.group());
  EXPECT_EQ(communicator.active_ranks(), plain.size());
  // Both handles keep one order.
  std::vector<float> large(100000, 1);
  const Work work = plain.all_reduce_async(std::span(large));
  communicator.barrier();
  EXPECT_TRUE(work.is_done());
}

}  // namespace

std::vector<RankCase> mismatch_cases() {
  return {
      {"DifferentCounts", different_counts},
      {"DifferentTypes", different_types},
      {"DifferentOperations", different_operations},
      {"DifferentRoots", different_roots},
      {"DifferentCollectives", different_collectives},
      {"DifferentOrder", different_order},
      {"DifferentCountsByRank", different_counts_by_rank},
      {"AnAllToAllWithOtherCounts", an_all_to_all_with_other_counts_than_expected},
      {"ACheckedCommunicatorIsItself", a_checked_communicator_is_itself},
  };
}

std::vector<RankCase> negotiation_cases() {
  auto cases = mismatch_cases();
  const auto joins = join_cases();
  cases.insert(cases.end(), joins.begin(), joins.end());
  auto of_plain_ones = exchange_and_set_cases();
  of_plain_ones.insert(of_plain_ones.end(), collective_cases().begin(), collective_cases().end());
  for (const RankCase& plain : of_plain_ones) {
    // In the words of a plain communicator; here mismatch_cases() has it.
    if (plain.name == "CountsThatDifferAreNamed") continue;
    cases.push_back({"Checked" + plain.name, [run = plain.run](const Communicator& communicator) {
                       run(communicator.checked());
                     }});
  }
  return cases;
}

}  // namespace kolo::testing
