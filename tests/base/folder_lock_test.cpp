#include "kolo/base/folder_lock.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

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
    options.heartbeat = std::chrono::milliseconds(20);
    options.patience = std::chrono::milliseconds(400);
    return options;
  }

  // Puts words in place of what the lock file says.
  void claim(const std::string& key, const std::string& value) const {
    std::ifstream file(folder / name);
    std::string text;
    for (std::string line; std::getline(file, line);)
      text += (line.starts_with(key + " ") ? key + " " + value : line) + "\n";
    folder.write(name, text);
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

TEST_P(FolderLocks, AFreshFolderIsTakenAtOnce) {
  auto patient = options();
  patient.patience = std::chrono::hours(1);
  std::vector<std::string> said;
  patient.say = [&](const std::string& what) { said.push_back(what); };
  const FolderLock lock(folder.path(), patient);
  EXPECT_TRUE(lock.is_held());
  EXPECT_THAT(said, ::testing::IsEmpty());
}

TEST_P(FolderLocks, OneHasItTheOtherIsToldWhoAndSinceWhen) {
  auto held = options();
  held.job = "Slurm job 12";
  {
    const FolderLock lock(folder.path(), held);
    EXPECT_TRUE(lock.is_held());
    EXPECT_THAT(message_of<InputError>([&] { FolderLock other(folder.path(), options()); }),
                AllOf(HasSubstr(folder.path()),
                      HasSubstr("in use by process " + std::to_string(::getpid())),
                      HasSubstr("Slurm job 12"), HasSubstr("since 2")));
    if (GetParam()) {
      EXPECT_EQ(FolderLock::living_holder(folder.path(), name)->token, lock.token());
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it is given back";
  EXPECT_FALSE(FolderLock::living_holder(folder.path(), name));
  const FolderLock again(folder.path(), options());
}

TEST_P(FolderLocks, AFolderThatIsNotThereIsInUseByNobody) {
  const auto message =
      message_of<Error>([&] { const FolderLock lock(folder / "none", options()); });
  EXPECT_THAT(message, AllOf(HasSubstr("lock: "), HasSubstr((folder / "none").string()),
                             HasSubstr("o such f"), ::testing::Not(HasSubstr("in use"))));
}

TEST_P(FolderLocks, AKilledProcessHoldsNothing) {
  leave_one_behind();
  EXPECT_FALSE(FolderLock::living_holder(folder.path(), name));
  EXPECT_EQ(FolderLock::last_holder(folder.path(), name)->progress, 123);
  const FolderLock lock(folder.path(), options());
  EXPECT_TRUE(lock.is_held());
  EXPECT_FALSE(FolderLock::last_holder(folder.path(), name)->progress);
}

TEST_P(FolderLocks, AnotherProcessOfTheSameNumberIsNotItsHolder) {
  leave_one_behind();
  claim("process", std::to_string(::getpid()));
  const FolderLock lock(folder.path(), options());
}

TEST_P(FolderLocks, AHolderOnAnotherMachineLivesAsLongAsItTouchesTheFile) {
  leave_one_behind();
  claim("host", "elsewhere");
  {
    std::jthread life([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        std::filesystem::last_write_time(folder / name,
                                         std::filesystem::file_time_type::clock::now());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    EXPECT_THAT(message_of<InputError>([&] { FolderLock lock(folder.path(), options()); }),
                HasSubstr("on elsewhere"));
  }
  const FolderLock lock(folder.path(), options());
  EXPECT_TRUE(lock.is_held());
}

TEST_P(FolderLocks, OfManyAtOnceExactlyOneWins) {
  for (const bool is_stale : {false, true}) {
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

// What was about to take over from a dead holder, and died too.
TEST_P(FolderLocks, AHalfTakenOneIsTakenInTheEnd) {
  leave_one_behind();
  const auto token = FolderLock::last_holder(folder.path(), name)->token;
  folder.write(std::string(name) + "." + token, "");
  auto patient = options();
  patient.wait = std::chrono::seconds(20);
  const FolderLock lock(folder.path(), patient);
  EXPECT_TRUE(lock.is_held());
}

// As a process that is suspended for long, and goes on.
TEST_P(FolderLocks, AHolderThatWasTakenForDeadLosesIt) {
  auto silent = options();
  silent.heartbeat = std::chrono::hours(1);
  const FolderLock suspended(folder.path(), silent);
  claim("host", "elsewhere");
  auto taker = options();
  taker.flock = no_flock;
  {
    const FolderLock lock(folder.path(), taker);
    EXPECT_TRUE(lock.is_held());
    EXPECT_FALSE(suspended.is_held());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "no successor is left";
}

TEST_P(FolderLocks, WhoWaitsGetsItWhenItsHolderEnds) {
  auto held = std::make_unique<FolderLock>(folder.path(), options());
  std::atomic<bool> is_waiting = false;
  auto patient = options();
  patient.wait = std::chrono::seconds(60);
  patient.say = [&](const std::string&) { is_waiting = true; };
  const std::jthread ending([&] {
    while (!is_waiting) std::this_thread::yield();
    held.reset();
  });
  const FolderLock lock(folder.path(), patient);
  EXPECT_TRUE(lock.is_held());
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
  EXPECT_EQ(FolderLock::last_holder(folder.path(), name)->progress, 42);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutFlock, FolderLocks, ::testing::Bool(),
                         [](const auto& parameter) {
                           return parameter.param ? "Flock" : "NoFlock";
                         });

}  // namespace
}  // namespace kolo
