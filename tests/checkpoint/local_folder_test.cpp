// Folders for copies on a node's own storage, which others may write to as well.
#include "kolo/checkpoint/local_folder.h"

#include <filesystem>
#include <limits>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

Checkpoint copy_of(float value) {
  return {{{"weight", torch::full({3}, value)}},
          {{"weight.exp_avg", torch::zeros({3})}},
          nlohmann::json::object()};
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

class LocalFolders : public ::testing::Test {
 protected:
  TemporaryFolder place;
};

TEST_F(LocalFolders, KeepTheNewestCopyForOneUserAlone) {
  LocalFolder folder(place / "", "1");
  EXPECT_FALSE(fs::exists(folder.path())) << "nothing is made before it is needed";
  ASSERT_TRUE(folder.take());
  EXPECT_EQ(mode_of(folder.path()), 0700U);
  for (const int step : {5, 10, 15})
    (void)folder.store().save(step, copy_of(static_cast<float>(step)), false);
  ASSERT_EQ(folder.store().folders().size(), 1U);
  const auto newest = folder.store().load_newest([](const auto&) {});
  EXPECT_EQ(newest.value().step, 15);
  EXPECT_EQ(newest.value().content.model.front().tensor[0].item<float>(), 15);
  folder.remove();
  EXPECT_TRUE(fs::is_empty(place / ""));
}

TEST_F(LocalFolders, AreWrittenByOneProcessAtATime) {
  LocalFolder first(place / "", "1");
  ASSERT_TRUE(first.take());
  LocalFolder second(place / "", "1"), another(place / "", "2");
  EXPECT_FALSE(second.take());
  EXPECT_TRUE(second.is_ours()) << "it may be read";
  EXPECT_TRUE(another.take());
  first.remove();
  EXPECT_TRUE(second.take());
}

TEST_F(LocalFolders, ThatAreNotThisUsersAloneAreRefused) {
  const auto refused = [&](LocalFolder& folder) {
    return message_of<Error>([&] { (void)folder.take(); });
  };
  LocalFolder open(place / "", "open"), link(place / "", "link"), file(place / "", "file");
  fs::create_directory(open.path());
  fs::permissions(open.path(), fs::perms(0755));
  fs::create_directory(place / "elsewhere");
  fs::permissions(place / "elsewhere", fs::perms(0700));
  fs::create_directory_symlink(place / "elsewhere", link.path());
  write_file_atomically(file.path(), "");
  for (auto* const folder : {&open, &link, &file}) {
    EXPECT_FALSE(folder->is_ours());
    EXPECT_THAT(refused(*folder), AllOf(HasSubstr(folder->path().string()),
                                        HasSubstr("is not a folder of this user's alone")));
    EXPECT_NO_THROW(folder->remove());
    EXPECT_TRUE(fs::exists(folder->path())) << "what is not ours stays";
  }
  EXPECT_TRUE(fs::is_empty(place / "elsewhere"));
  if (::geteuid() == 0) {
    LocalFolder others(place / "", "others");
    fs::create_directory(others.path());
    fs::permissions(others.path(), fs::perms(0700));
    ASSERT_EQ(::chown(others.path().c_str(), 65534, 65534), 0);
    EXPECT_THAT(refused(others), HasSubstr("is not a folder of this user's alone"));
  }
}

TEST_F(LocalFolders, NeedAPlaceWhereNobodyCanReplaceThem) {
  LocalFolder missing(place / "missing", "1");
  EXPECT_THAT(message_of<Error>([&] { (void)missing.take(); }), HasSubstr("missing"));
  fs::create_directory(place / "shared");
  fs::permissions(place / "shared", fs::perms(0777));
  LocalFolder folder(place / "shared", "1");
  EXPECT_THAT(message_of<Error>([&] { (void)folder.take(); }), HasSubstr("is not sticky"));
  fs::permissions(place / "shared", fs::perms(01777));
  EXPECT_TRUE(folder.take());
}

TEST_F(LocalFolders, SayWhereThereIsNoRoom) {
  const LocalFolder folder(place / "", "1");
  EXPECT_NO_THROW(folder.require_room(1));
  EXPECT_THAT(
      message_of<Error>([&] { folder.require_room(std::numeric_limits<std::uint64_t>::max()); }),
      AllOf(HasSubstr(fs::path(place / "").string()), HasSubstr("and a copy takes")));
}

TEST_F(LocalFolders, OfRunsThatAreLongDeadAreRemoved) {
  const auto make = [&](const char* key, bool is_old) {
    LocalFolder folder(place / "", key);
    EXPECT_TRUE(folder.take());
    (void)folder.store().save(5, copy_of(5), false);
    if (is_old)
      fs::last_write_time(folder.path(), fs::file_time_type::clock::now() - std::chrono::hours(30));
    return folder;
  };
  const auto dead = make("dead", true).path(), young = make("young", false).path();
  const auto alive = make("alive", true), own = make("own", true);
  const auto users = fs::path(dead.string() + "-notes");  // called like one, and none
  fs::create_directory(users);
  fs::permissions(users, fs::perms(0700));
  fs::last_write_time(users, fs::file_time_type::clock::now() - std::chrono::hours(30));
  EXPECT_THAT(own.remove_stale(std::chrono::hours(24)), ::testing::ElementsAre(dead));
  EXPECT_FALSE(fs::exists(dead));
  for (const auto& stays : {young, alive.path(), own.path(), users})
    EXPECT_TRUE(fs::exists(stays)) << stays;
}

}  // namespace
}  // namespace kolo::testing
