// Of a kolo that was built without what fetching takes.
#include <filesystem>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/fetch/fetch.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FetchLeftOut, SaysWhatItTakesAndLeavesNothing) {
  EXPECT_FALSE(is_fetching_built());
  const TemporaryFolder folder;
  const RemoteDataset dataset{
      .name = "test", .url = "file:///", .files = {{.name = "one", .md5 = "", .bytes = 3}}};
  const auto message =
      message_of<InputError>([&] { fetch_dataset(dataset, {.folder = folder / "data"}); });
  EXPECT_THAT(message, AllOf(HasSubstr("built without libcurl"), HasSubstr("KOLO_FETCH=ON")));
  EXPECT_FALSE(std::filesystem::exists(folder / "data"));
}

TEST(FetchLeftOut, KnowsTheDataSetsAndACompleteFolder) {
  EXPECT_EQ(remote_datasets().size(), 3U);
  const TemporaryFolder folder;
  folder.write("one", "abc");
  const RemoteDataset dataset{.name = "test", .files = {{.name = "one", .md5 = "", .bytes = 3}}};
  EXPECT_TRUE(fetch_dataset(dataset, {.folder = folder.path()}).was_there);
}

}  // namespace
}  // namespace kolo::testing
