// Reasons why launchers fail or are slow.
#include "run/launch/launch_advice.h"

#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

constexpr double mebi = 1 << 20;

LaunchConditions good_conditions() {
  return {.ranks = 2,
          .slots = 0,
          .are_here = true,
          .shared_memory = SharedMemoryFolder{64 * mebi, 63 * mebi},
          .file_size_limit = {},
          .names = {{"localhost", .001}, {"n1", .02}}};
}

TEST(LaunchAdvice, NothingIsFoundWhereAllIsWell) {
  EXPECT_THAT(usual_reasons(good_conditions()), IsEmpty());
}

TEST(LaunchAdvice, LittleSharedMemoryMattersToRanksOfThisMachine) {
  auto conditions = good_conditions();
  conditions.shared_memory->free = mebi;
  ASSERT_THAT(usual_reasons(conditions), SizeIs(1));
  EXPECT_TRUE(says(usual_reasons(conditions)[0],
                   {"/dev/shm has 1.00 MiB free", "8.50 MiB there for 2 ranks", "--shm-size=1g"}));
  conditions.shared_memory.reset();
  ASSERT_THAT(usual_reasons(conditions), SizeIs(1));
  EXPECT_TRUE(says(usual_reasons(conditions)[0], {"there is no /dev/shm"}));
  conditions.are_here = false;
  EXPECT_THAT(usual_reasons(conditions), IsEmpty());
}

TEST(LaunchAdvice, NamesThatNobodyAnswersForGetALine) {
  auto conditions = good_conditions();
  conditions.names = {{"localhost", 5}, {"n1", 6, false}};
  ASSERT_THAT(usual_reasons(conditions), SizeIs(1));
  EXPECT_EQ(usual_reasons(conditions)[0],
            "looking up localhost took 5.0 s, n1 took more than 6.0 s: add a line to /etc/hosts: "
            "127.0.0.1 localhost n1");
  conditions.names[0].seconds = .9;
  EXPECT_EQ(describe_slow_names(conditions.names), "looking up n1 took more than 6.0 s");
  EXPECT_EQ(advice_on_names(conditions.names), "add a line to /etc/hosts: 127.0.0.1 n1");
}

TEST(LaunchAdvice, SlotsAndTheLimitOfFilesSizesAreCounted) {
  auto conditions = good_conditions();
  conditions.slots = 1;
  conditions.file_size_limit = 512000;
  const auto reasons = usual_reasons(conditions);
  ASSERT_THAT(reasons, SizeIs(2));
  EXPECT_EQ(reasons[0], "2 ranks on hosts with 1 slot: give the hosts more slots");
  EXPECT_TRUE(says(reasons[1], {"larger than 512000 bytes", "ulimit -f unlimited"}));
  conditions.slots = 2;
  conditions.file_size_limit = std::uint64_t{1} << 40;
  EXPECT_THAT(usual_reasons(conditions), IsEmpty());
}

TEST(LaunchAdvice, ThisMachineIsExamined) {
  EXPECT_TRUE(look_up("127.0.0.1", std::chrono::seconds(60)).has_ended) << "it is no name";
  const TemporaryFolder folder;
  const auto room = examine_shared_memory(folder.path());
  ASSERT_TRUE(room);
  EXPECT_LE(room->free, room->total);
  EXPECT_FALSE(examine_shared_memory(folder / "none"));
  const auto conditions = examine_conditions({.ranks = 3, .hosts = {{"a", 1}, {"b", 1}}},
                                             /*are_here=*/false, std::chrono::milliseconds(1));
  EXPECT_EQ(conditions.ranks, 3);
  EXPECT_EQ(conditions.slots, 2);
  EXPECT_EQ(conditions.names.at(0).name, "localhost");
}

}  // namespace
}  // namespace kolo::testing
