#include "comm/negotiation/call_comparison.h"
#include "support/says.h"

#include <vector>

#include <gmock/gmock.h>

namespace kolo {
namespace {

CallHeader all_reduce_of(std::int64_t count) {
  return {.collective = Collective::all_reduce, .type = DataType::float32, .count = count};
}

TEST(CallHeader, SaysWhatIsCalled) {
  auto call = all_reduce_of(4);
  EXPECT_EQ(call.describe(), "all-reduce (sum) of 4 float32");
  call.memory = MemoryKind::device;
  call.tag = 7;
  EXPECT_EQ(call.describe(), "all-reduce (sum) of 4 float32 in device memory, tag 7");
  float value = 0;
  EXPECT_EQ(CollectiveCall::broadcast(std::span(&value, 1), 2).describe(),
            "broadcast (from root 2) of 1 float32");
  EXPECT_EQ(CollectiveCall::of(Collective::allocate_for_node, 640).describe(),
            "allocate of 640 bytes, one for a node");
}

TEST(CallHeader, TheFirstDifferenceIsNamed) {
  const auto usual = all_reduce_of(4);
  const auto difference = [&](auto change) {
    auto other = usual;
    change(other);
    return first_difference(usual, other);
  };
  EXPECT_EQ(difference([](CallHeader&) {}), "");
  EXPECT_EQ(difference([](CallHeader& other) { other.number = 9; }), "");
  EXPECT_EQ(difference([](CallHeader& other) { other.fingerprint = 9; }), counts_by_rank);
  EXPECT_EQ(difference([](CallHeader& other) { other.count = other.fingerprint = 9; }),
            "the count");
  EXPECT_EQ(difference([](CallHeader& other) { other.memory = MemoryKind::device; }),
            "the kind of memory");
  EXPECT_EQ(difference([](CallHeader& other) { other.tag = other.peer = 9; }), "the root");
  EXPECT_EQ(difference([](CallHeader& other) { other.tag = 9; }), "the tag");
  EXPECT_EQ(difference([](CallHeader& other) { other.op = ReduceOp::max; }), "the operation");
  EXPECT_EQ(difference([](CallHeader& other) { other.type = DataType::int8; }), "the element type");
  EXPECT_EQ(difference([](CallHeader& other) { other = {.collective = Collective::barrier}; }),
            "the collective");
}

TEST(CallComparison, TheMajorityIsNamedFirst) {
  std::vector<CallHeader> headers(6, all_reduce_of(7));
  headers[0] = {.collective = Collective::barrier};
  headers[3] = {.collective = Collective::join};
  EXPECT_EQ(describe_mismatch(headers, {}),
            "comm: ranks called different collectives: ranks 1-2, 4-5 all-reduce (sum) of 7 "
            "float32; rank 0 barrier; all ranks must make the same calls in the same order (they "
            "differ in the collective)");
}

TEST(CallComparison, AMessageAboutManyRanksStaysShort) {
  std::vector<CallHeader> headers(1000, all_reduce_of(7));
  for (std::size_t rank = 0; rank < headers.size(); rank += 2) headers[rank].count = 1000;
  for (std::size_t rank = 1; rank < 20; rank += 2)
    headers[rank].count = static_cast<std::int64_t>(rank);
  const auto message = describe_mismatch(headers, {});
  EXPECT_TRUE(says(message, {"ranks 0, 2, 4, 6, 8, 10 and 494 more all-reduce"}));
  EXPECT_TRUE(says(message, {"7 other calls elsewhere"}));
  EXPECT_LT(message.size(), 600U);
}

TEST(CallComparison, AllToAllFingerprintsBalance) {
  // Rank r sends counts[r][s] to rank s, which expects as many when everything is well.
  std::vector<std::vector<std::int64_t>> counts = {{1, 2, 3}, {0, 5, 6}, {7, 8, 0}};
  const auto balance = [&](int liar) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<std::int64_t> received;
      for (const auto& row : counts) received.push_back(row[static_cast<std::size_t>(rank)]);
      if (rank == liar) std::swap(received[0], received[1]);
      sum += all_to_all_fingerprint(rank, counts[static_cast<std::size_t>(rank)], received);
    }
    return sum;
  };
  EXPECT_EQ(balance(-1), 0U);
  for (int liar = 0; liar < 3; ++liar) EXPECT_NE(balance(liar), 0U);
}

}  // namespace
}  // namespace kolo
