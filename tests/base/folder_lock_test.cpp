#include "kolo/base/folder_lock.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/read_all.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

namespace fs = std::filesystem;

constexpr const char* name = ".kolo.lock";

// As on a file system that has no flock.
int no_flock(int /*file*/, int /*operation*/) {
  errno = ENOSYS;
  return -1;
}

// Over a file system with flock, and over one without.
class FolderLocks : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] FolderLockOptions options() const {
    FolderLockOptions options;
    if (!GetParam()) options.flock = no_flock;
    options.wait = std::chrono::milliseconds(0);
    return options;
  }

  // A lock that a process left when it was killed.
  void leave_one_behind() const {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto lock = std::make_unique<FolderLock>(folder.path(), options());
      lock->note(123);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
  }

  TemporaryFolder folder;
};

TEST_P(FolderLocks, OneHasItTheOtherIsToldWhoAndSinceWhen) {
  auto held = options();
  held.job = "Slurm job 12";
  {
    const FolderLock lock(folder.path(), held);
    EXPECT_TRUE(lock.is_held());
    EXPECT_TRUE(says(message_of<InputError>([&] { FolderLock other(folder.path(), options()); }),
                     {folder.path().string(), "in use by process " + std::to_string(::getpid()),
                      "Slurm job 12", "since 2"}));
    EXPECT_EQ(FolderLock::living_holder(folder.path(), name, held.flock)->token, lock.token());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it is given back";
  EXPECT_FALSE(FolderLock::living_holder(folder.path(), name, held.flock));
  const FolderLock again(folder.path(), options());
}

TEST_P(FolderLocks, AFolderThatIsNotThereIsInUseByNobody) {
  const auto message =
      message_of<Error>([&] { const FolderLock lock(folder / "none", options()); });
  EXPECT_THAT(message, AllOf(HasSubstr("lock: "), HasSubstr((folder / "none").string()),
                             HasSubstr("o such f"), ::testing::Not(HasSubstr("in use"))));
}

// The file holds no lock with flock; without, the next process is told to remove it.
TEST_P(FolderLocks, WhatItsNameLeadsToIsNotOverwritten) {
  const auto other = folder / "precious";
  const auto lock = folder / name;
  std::ofstream(other) << "text";
  const std::vector<std::function<void()>> ways = {
      [&] { fs::create_symlink(other, lock); }, [&] { fs::create_hard_link(other, lock); },
      [&] { fs::create_symlink(folder / "nothing", lock); }, [&] { fs::create_directory(lock); },
      [&] { ASSERT_EQ(::mkfifo(lock.c_str(), 0600), 0); }};
  for (const auto& make : ways) {
    make();
    const auto message = message_of<InputError>([&] { FolderLock held(folder.path(), options()); });
    EXPECT_TRUE(says(message, {lock.string(), "is not a file that kolo has made"}));
    fs::remove(lock);
    EXPECT_EQ(testing::read_all(other), "text");
    EXPECT_FALSE(fs::exists(folder / "nothing"));
  }
}

TEST_P(FolderLocks, AKilledProcessLeavesItsFile) {
  leave_one_behind();
  EXPECT_EQ(FolderLock::last_holder(folder.path(), name)->progress, 123);
  EXPECT_NE(FolderLock::living_holder(folder.path(), name, options().flock).has_value(),
            GetParam());
  if (!GetParam()) {
    EXPECT_TRUE(says(message_of<InputError>([&] { FolderLock refused(folder.path(), options()); }),
                     {"in use by process ",
                      "no flock: if that has ended, rm '" + (folder / name).string() + "'"}));
    std::filesystem::remove(folder / name);
  }
  const FolderLock lock(folder.path(), options());
  EXPECT_TRUE(lock.is_held());
  EXPECT_FALSE(FolderLock::last_holder(folder.path(), name)->progress);
}

TEST_P(FolderLocks, TheFileOfAHolderThatIsKnownToHaveEndedIsReplaced) {
  leave_one_behind();
  auto restarted = options();
  restarted.replaces_file = true;
  const FolderLock lock(folder.path(), restarted);
  EXPECT_TRUE(lock.is_held());
  EXPECT_EQ(FolderLock::last_holder(folder.path(), name)->token, lock.token());
}

TEST_P(FolderLocks, OfManyAtOnceExactlyOneWins) {
  for (const bool is_stale : {false, true}) {
    if (is_stale && !GetParam()) continue;
    if (is_stale) leave_one_behind();
    std::atomic<int> ready = 0, refused = 0;
    std::vector<std::unique_ptr<FolderLock>> locks(8);
    {
      std::vector<std::jthread> threads;
      for (auto& lock : locks) {
        threads.emplace_back([&] {
          for (++ready; ready < 8;) std::this_thread::yield();
          try {
            lock = std::make_unique<FolderLock>(folder.path(), options());
          } catch (const InputError&) {
            ++refused;
          }
        });
      }
    }
    EXPECT_EQ(refused, 7) << (is_stale ? "one was left behind" : "there was none");
  }
}

TEST_P(FolderLocks, IsLostWithItsFolder) {
  const auto inner = folder / "run", moved = folder / "run.1";
  std::filesystem::create_directory(inner);
  FolderLock lock(inner, options());
  std::filesystem::rename(inner, moved);
  EXPECT_FALSE(lock.is_held());
  lock.follow(moved);
  EXPECT_TRUE(lock.is_held());
  std::filesystem::remove_all(moved);
  EXPECT_FALSE(lock.is_held());
}

TEST_P(FolderLocks, AfterAnExceptionTheFileStaysToBeReadAndIsFree) {
  try {
    FolderLock lock(folder.path(), options());
    lock.note(42);
    throw Error("on purpose");
  } catch (const Error&) {
  }
  const auto left = FolderLock::last_holder(folder.path(), name);
  EXPECT_EQ(left.has_value(), GetParam()) << "without flock it would be in the way";
  if (left) {
    EXPECT_EQ(left->progress, 42);
  }
}

// Without flock nobody waits: whether the holder lives can't be told.
TEST(FolderLock, WhoWaitsGetsItWhenItsHolderEnds) {
  const TemporaryFolder folder;
  auto held = std::make_unique<FolderLock>(folder.path());
  std::atomic<bool> is_waiting = false;
  const auto wake = [&](const std::string&) { is_waiting = true; };
  const std::jthread ending([&] {
    while (!is_waiting) std::this_thread::yield();
    held.reset();
  });
  const FolderLock lock(folder.path(), {.wait = std::chrono::seconds(60), .say = wake});
  EXPECT_TRUE(lock.is_held());
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutFlock, FolderLocks, ::testing::Bool(),
                         [](const auto& parameter) {
                           return parameter.param ? "Flock" : "NoFlock";
                         });

}  // namespace
}  // namespace kolo
