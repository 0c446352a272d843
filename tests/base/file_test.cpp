#include "kolo/base/file.h"

#include <sys/stat.h>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/file_size_limit.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using testing::FileSizeLimit;
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

TEST(AtomicFile, ThatCannotHaveItsNameLeavesNothing) {
  const TemporaryFolder folder;
  folder.write("a.txt/inside", "");
  EXPECT_THROW(write_file_atomically(folder / "a.txt", "new"), Error);
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(AtomicFile, ALimitOfFilesSizesIsNamedWithWhatToDo) {
  const TemporaryFolder folder;
  const FileSizeLimit limit(2048);
  const auto message = message_of<Error>(
      [&] { write_file_atomically(folder / "large.txt", std::string(4000, ' ')); });
  EXPECT_TRUE(says(message, {"large.txt", "File too large", "larger than 2048 bytes (ulimit -f)",
                             "ulimit -f unlimited"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(OpenRegularFile, SaysWhatItFound) {
  const TemporaryFolder folder;
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)open_regular_file(folder.path()); }), {"a folder"}));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)open_regular_file(folder / "pipe"); }),
                   {"not a regular file"}));
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)open_regular_file(folder / "none"); }), {"No such file"}));
}

TEST(ReadTextFile, ReadsFilesLargerThanItsBlocks) {
  const TemporaryFolder folder;
  std::string text(200001, 'x');
  text.back() = 'y';
  EXPECT_EQ(read_text_file(folder.write("big", text)), text);
}

}  // namespace
}  // namespace kolo
