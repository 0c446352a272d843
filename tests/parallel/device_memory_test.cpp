// What is told where a device's memory is not enough.
#include <gmock/gmock.h>

#include "support/errors.h"
#include "support/simulated_device/device.h"

#include "kolo/parallel/device_memory.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

[[noreturn]] void run_out_of_memory() {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "tried to allocate 2 GiB\nbacktrace");
}

TEST(DeviceMemory, IsToldByPhaseWhatThereIsAndWhatToDo) {
  const DeviceMemoryUse use{std::int64_t{70} << 30,
                            std::int64_t{75} << 30,
                            {std::size_t{1} << 30, std::size_t{80} << 30}};
  EXPECT_THAT(
      describe_out_of_memory("backward", {torch::kCUDA, 1}, use, "no 2 GiB\nbacktrace"),
      AllOf(HasSubstr("cuda:1"), HasSubstr("backward"), HasSubstr("1.00 GiB of 80.00 GiB"),
            HasSubstr("70.00 GiB at most"), HasSubstr("reserved 75.00 GiB"),
            HasSubstr("training.batch_size"), HasSubstr("no 2 GiB"), Not(HasSubstr("backtrace"))));
  EXPECT_FALSE(memory_use(torch::kCPU).has_value());
}

TEST(DeviceMemory, AStepThatDoesNotFitNamesItsPhase) {
  const auto message = message_of<Error>(
      [&] { in_phase("forward", simulated::device(), [] { run_out_of_memory(); }); });
  EXPECT_THAT(message, AllOf(HasSubstr("forward"), HasSubstr(simulated::device().str()),
                             HasSubstr("tried to allocate"), Not(HasSubstr("backtrace"))));
  EXPECT_EQ(in_phase("forward", torch::kCPU, [] { return 3; }), 3);
}

}  // namespace
}  // namespace kolo::testing
