#include "kolo/base/file.h"

#include <sys/stat.h>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

TEST(AtomicFile, AppearsWholeOnCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a.txt");
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.txt"));
  file.commit();
  EXPECT_EQ(read_text_file(folder / "a.txt"), "one two");
}

TEST(AtomicFile, WithoutCommitTheOldFileStaysAndNothingIsLeft) {
  const TemporaryFolder folder;
  folder.write("a.txt", "old");
  { AtomicFile(folder / "a.txt").write("new"); }
  EXPECT_EQ(read_text_file(folder / "a.txt"), "old");
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(OpenRegularFile, SaysWhatItFound) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<Error>([&] { (void)open_regular_file(folder.path()); }),
              HasSubstr("a folder"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<Error>([&] { (void)open_regular_file(folder / "pipe"); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(message_of<Error>([&] { (void)open_regular_file(folder / "none"); }),
              HasSubstr("No such file"));
}

TEST(ReadTextFile, ReadsFilesLargerThanItsBlocks) {
  const TemporaryFolder folder;
  std::string text(200001, 'x');
  text.back() = 'y';
  EXPECT_EQ(read_text_file(folder.write("big", text)), text);
}

}  // namespace
}  // namespace kolo
