#include "comm/negotiation/call_header.h"

#include <vector>

#include <gmock/gmock.h>

namespace kolo {
namespace {

CallHeader all_reduce_of(std::int64_t count) {
  return {.collective = Collective::all_reduce,
          .type = static_cast<std::uint32_t>(DataType::float32),
          .count = count};
}

TEST(CallHeader, TheMajorityIsNamedFirst) {
  std::vector<CallHeader> headers(6, all_reduce_of(7));
  headers[0] = {.collective = Collective::barrier};
  headers[3] = {.collective = Collective::join};
  EXPECT_EQ(describe_mismatch(headers),
            "comm: ranks called different collectives: ranks 1-2, 4-5 all-reduce (sum) of 7 "
            "float32; rank 0 barrier; all ranks must make the same calls in the same order");
}

TEST(CallHeader, AMessageAboutManyRanksStaysShort) {
  std::vector<CallHeader> headers(1000, all_reduce_of(7));
  for (std::size_t rank = 0; rank < headers.size(); rank += 2) headers[rank].count = 1000;
  for (std::size_t rank = 1; rank < 20; rank += 2)
    headers[rank].count = static_cast<std::int64_t>(rank);
  const auto message = describe_mismatch(headers);
  EXPECT_THAT(message, ::testing::HasSubstr("ranks 0, 2, 4, 6, 8, 10 and 494 more all-reduce"));
  EXPECT_THAT(message, ::testing::HasSubstr("7 other calls elsewhere"));
  EXPECT_LT(message.size(), 600U);
}

TEST(CallHeader, AllToAllFingerprintsBalance) {
  // What rank r sends to rank s, and expects from it when everything is well, is counts[r][s].
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
