// kolo's words for what the standard library's functions for files throw.
#include "base/file_failure.h"

#include <gmock/gmock.h>

#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Said {
  std::string text;
  bool is_of_the_name = false;
};

template <typename Step>
Said said_of(const Step& step) {
  try {
    step();
  } catch (const fs::filesystem_error& failure) {
    return {describe(failure), is_of_the_name(failure)};
  }
  return {"nothing was thrown"};
}

TEST(FileFailure, NamesThatTheSystemRefuses) {
  const TemporaryFolder folder;
  const auto too_long = folder / std::string(256, 'a');
  auto said = said_of([&] { (void)fs::exists(too_long); });
  EXPECT_TRUE(said.is_of_the_name);
  EXPECT_THAT(said.text, AllOf(StartsWith("files: cannot look at " + too_long.string()),
                               HasSubstr("too long; a name may have 255 bytes")));
  fs::create_symlink("loop", folder / "loop");
  said = said_of([&] { (void)fs::is_directory(folder / "loop"); });
  EXPECT_TRUE(said.is_of_the_name);
  EXPECT_TRUE(says(said.text, {"a link that leads back to itself"}));
  said = said_of([&] { fs::create_directory(folder.write("file", "") / "below"); });
  EXPECT_TRUE(said.is_of_the_name);
  EXPECT_TRUE(says(said.text, {"has to be a folder"}));
}

TEST(FileFailure, WhatWasTried) {
  const TemporaryFolder folder;
  auto said = said_of([&] { fs::rename(folder / "a", folder / "b"); });
  EXPECT_FALSE(said.is_of_the_name) << "it may have been there before";
  EXPECT_THAT(said.text, StartsWith("files: cannot rename " + (folder / "a").string() + " to " +
                                    (folder / "b").string() + ": No such file or directory; "));
  said = said_of([&] { (void)fs::directory_iterator(folder / "a"); });
  EXPECT_THAT(said.text, AllOf(StartsWith("files: cannot open directory "),
                               Not(HasSubstr("filesystem error"))));
}

}  // namespace
}  // namespace kolo::testing
