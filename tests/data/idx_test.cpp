#include "kolo/data/mnist.h"

#include "data/gzip_bytes.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/idx_files.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

class Idx : public ::testing::Test {
 protected:
  IdxArray read(std::string_view content, const IdxExpectation& expected = {}) const {
    return read_idx(folder_.write("file", content), expected);
  }
  // Message that rejects the content; each names the file.
  std::string rejection(std::string_view content, const IdxExpectation& expected = {}) const {
    const auto message = message_of<InputError>([&] { (void)read(content, expected); });
    EXPECT_TRUE(says(message, {(folder_ / "file").string()}));
    return message;
  }
  TemporaryFolder folder_;
};

TEST_F(Idx, ReadsBytes) {
  const auto array = read(idx_bytes(0x08, {2, 3}, std::string_view("\x00\x01\x7f\x80\xfe\xff", 6)));
  EXPECT_THAT(array.dimensions, ElementsAre(2, 3));
  EXPECT_THAT(array.bytes, ElementsAre(0, 1, 127, 128, 254, 255));
}

TEST_F(Idx, PlainAndGzipAreTheSameWhateverTheName) {
  std::string elements;
  for (std::uint32_t i = 0; i < 300000; ++i) elements.push_back(static_cast<char>(i * i >> 3));
  const auto content = idx_bytes(0x08, {3, 100000}, elements);
  const auto plain = read(content);
  EXPECT_EQ(plain.bytes, read(gzip_bytes(content)).bytes);
  // Several members one after the other are one gzip file; an empty one counts as well.
  const auto members = gzip_bytes(content.substr(0, 5)) + gzip_bytes("") +
                       gzip_bytes(content.substr(5, 200000)) + gzip_bytes(content.substr(200005));
  EXPECT_EQ(plain.bytes, read(members).bytes);
}

TEST_F(Idx, RejectsMagicNumbers) {
  EXPECT_TRUE(says(rejection(""), {"magic number", "0 bytes, expected 4"}));
  EXPECT_TRUE(says(rejection(std::string_view("\0\0\x08", 3)), {"3 bytes, expected 4"}));
  EXPECT_TRUE(says(rejection(std::string_view("\x03\x08\0\0\0\0\0\x01", 8)),
                   {"is 03080000, expected two zero bytes", "big-endian"}));
  EXPECT_TRUE(says(rejection("PNG, surely"), {"offset 0", "504e472c"}));
  EXPECT_TRUE(says(rejection(idx_bytes(0x0D, {1}, "abcd")),
                   {"element type at offset 2 is 0x0d", "0x08: bytes"}));
  EXPECT_TRUE(says(rejection(idx_bytes(0x08, {}, "a")), {"dimensions at offset 3 is 0"}));
}

TEST_F(Idx, RejectsAnotherRankThanExpected) {
  EXPECT_TRUE(says(rejection(idx_bytes(0x08, {2}, "ab"), IdxExpectation{3, "images"}),
                   {"00000801 (rank 1)", "00000803 (rank 3)", "images"}));
}

TEST_F(Idx, RejectsDimensions) {
  EXPECT_TRUE(says(rejection(idx_bytes(0x08, {2, 0}, "")), {"dimension 1 at offset 8 is 0"}));
  EXPECT_TRUE(says(rejection(idx_bytes(0x08, {2, 2}, "").substr(0, 10)),
                   {"truncated", "dimension 1 at offset 8 is 2 bytes"}));
  constexpr std::uint32_t most = 0xffffffff;
  EXPECT_TRUE(says(rejection(idx_bytes(0x08, {most, most, most}, "")), {"overflow"}));
  EXPECT_TRUE(says(rejection(gzip_bytes(idx_bytes(0x08, {most, most, 2}, ""))), {"overflow"}));
}

TEST_F(Idx, RejectsTruncatedAndTrailingData) {
  const auto content = idx_bytes(0x08, {2, 4}, "abcdefgh");
  const auto shorter = content.substr(0, content.size() - 1);
  EXPECT_TRUE(says(rejection(shorter), {"truncated", "2 x 4", "need 20 bytes", "has 19"}));
  EXPECT_TRUE(
      says(rejection(gzip_bytes(shorter)), {"truncated", "offset 12 are 7 bytes, expected 8"}));
  EXPECT_TRUE(says(rejection(content + "x"), {"trailing", "implies 20 bytes", "has 21"}));
  EXPECT_TRUE(says(rejection(gzip_bytes(content + "x")), {"trailing", "implies 20 bytes"}));
  // Bytes after the end of gzip data are passed over, as gzip itself does.
  for (const auto& after : {std::string(100000, '\0'), std::string("x")})
    EXPECT_EQ(read(gzip_bytes(content) + after).bytes, read(content).bytes);
  EXPECT_TRUE(says(rejection("<!DOCTYPE html><title>Not found</title>"),
                   {"it is an HTML page: the download went wrong"}));
  EXPECT_TRUE(says(rejection("PK\x03\x04" + std::string(40, 'x')), {"it is a zip archive"}));
}

TEST_F(Idx, RejectsWhatCannotBeInTheFileBeforeAllocating) {
  // 16 TiB, promised by files of a few bytes: an allocation of that size would fail the test.
  EXPECT_TRUE(
      says(rejection(idx_bytes(0x08, {0x80000000, 0x2000}, "ab")), {"truncated", "has 14"}));
  EXPECT_TRUE(says(rejection(gzip_bytes(idx_bytes(0x08, {0x80000000, 0x2000}, "ab"))),
                   {"truncated", "at most"}));
}

TEST_F(Idx, RejectsDamagedGzip) {
  std::string elements;
  for (int i = 0; i < 10000; ++i) elements.push_back(static_cast<char>(i * 7919 >> 5));
  const auto packed = gzip_bytes(idx_bytes(0x08, {10000}, elements));
  auto damaged = packed;
  damaged[packed.size() - 8] ^= 1;  // the checksum
  EXPECT_TRUE(says(rejection(damaged), {"corrupt gzip", "check"}));
  damaged = packed;
  damaged[packed.size() - 4] ^= 1;  // the length
  EXPECT_TRUE(says(rejection(damaged), {"corrupt gzip"}));
  for (const std::size_t size : {std::size_t{5}, packed.size() / 2, packed.size() - 1}) {
    EXPECT_TRUE(says(rejection(std::string_view(packed).substr(0, size)), {"truncated", "gzip"}));
  }
  // Whichever byte is damaged, the elements are never handed out wrong.
  const auto right = read(packed).bytes;
  for (std::size_t i = 2; i < packed.size(); i += 1 + packed.size() / 300) {
    damaged = packed;
    damaged[i] ^= 0x10;
    try {
      EXPECT_EQ(read(damaged).bytes, right) << "byte " << i;  // the header's time stamp, for one
    } catch (const InputError&) {
    }
  }
}

TEST_F(Idx, StopsAtAGzipBomb) {
  // 1000 members that unpack to 1 MiB each after a header that promises 4 bytes.
  const auto member = gzip_bytes(std::string(1 << 20, '\0'));
  std::string bomb = gzip_bytes(idx_bytes(0x08, {4}, "abcd"));
  for (int i = 0; i < 1000; ++i) bomb += member;
  EXPECT_TRUE(says(rejection(bomb), {"trailing", "implies 12 bytes"}));
}

}  // namespace
}  // namespace kolo::testing
