#include "kolo/base/file.h"

#include <array>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

constexpr std::array<std::string_view, 2> entries = {"file", "inner"};

void fill(const AtomicFolder& folder, std::string_view text) {
  write_file_atomically(folder.aside() / "file", text);
  fs::create_directory(folder.aside() / "inner");
}

TEST(AtomicFolder, AppearsWhenItIsWhole) {
  const TemporaryFolder root;
  const auto path = root / "a/b/made";
  {
    AtomicFolder folder(path.string() + "/");
    fill(folder, "text");
    EXPECT_FALSE(fs::exists(path));
    folder.commit();
  }
  EXPECT_EQ(read_text_file(path / "file"), "text");
  EXPECT_TRUE(fs::is_directory(path / "inner"));
  EXPECT_FALSE(fs::exists(root / "a/b/.made.part"));
}

TEST(AtomicFolder, VanishesWithoutCommit) {
  const TemporaryFolder root;
  { fill(AtomicFolder(root / "made"), "text"); }
  EXPECT_TRUE(fs::is_empty(root.path()));
}

TEST(AtomicFolder, ClearsAwayWhatAKilledProcessLeft) {
  const TemporaryFolder root;
  root.write(".made.part/rest/of/it", "x");
  AtomicFolder folder(root / "made");
  EXPECT_TRUE(fs::is_empty(folder.aside()));
  folder.commit();
  EXPECT_TRUE(fs::is_empty(root / "made"));
}

TEST(AtomicFolder, ReplacesOnlyWhatItMay) {
  const TemporaryFolder root;
  root.write("made/file", "old");
  EXPECT_TRUE(says(message_of<InputError>([&] { AtomicFolder(root / "made"); }),
                   {"made is not empty", "file"}));
  {
    AtomicFolder folder(root / "made", entries);
    fill(folder, "new");
    EXPECT_EQ(read_text_file(root / "made/file"), "old");
    folder.commit();
  }
  EXPECT_EQ(read_text_file(root / "made/file"), "new");
  EXPECT_FALSE(fs::exists(root / ".made.old"));
  root.write("made/thesis", "precious");
  EXPECT_TRUE(says(message_of<InputError>([&] { AtomicFolder(root / "made", entries); }),
                   {"thesis, which would be lost"}));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { AtomicFolder(root / "made/file"); }), {"not a folder"}));
}

TEST(AtomicFolder, IsFilledByOneAtATime) {
  const TemporaryFolder root;
  const AtomicFolder first(root / "made");
  EXPECT_TRUE(says(message_of<InputError>([&] { AtomicFolder(root / "made"); }),
                   {"another process is filling"}));
  EXPECT_TRUE(fs::exists(first.aside()));
}

}  // namespace
}  // namespace kolo
