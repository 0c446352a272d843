#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "parallel/kernels.h"

namespace kolo {
namespace {

// A checksum of pieces tells them apart, and their order.
TEST(Checksum, OfSeveralPiecesSeesEveryByteAndTheirOrder) {
  const std::size_t piece = parallel::checksum_piece_bytes;
  std::vector<std::byte> bytes(3 * piece + 5);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i / 7);
  const std::uint64_t whole = parallel::checksum(bytes);
  for (const std::size_t place :
       {std::size_t{0}, piece - 1, piece, 2 * piece + 77, 3 * piece + 4}) {
    bytes[place] ^= std::byte{1};
    EXPECT_NE(parallel::checksum(bytes), whole) << place;
    bytes[place] ^= std::byte{1};
  }
  EXPECT_EQ(parallel::checksum(bytes), whole);
  EXPECT_NE(parallel::checksum(std::span(bytes).first(3 * piece + 4)), whole);
  std::swap_ranges(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(piece),
                   bytes.begin() + static_cast<std::ptrdiff_t>(piece));
  EXPECT_NE(parallel::checksum(bytes), whole);
}

}  // namespace
}  // namespace kolo
