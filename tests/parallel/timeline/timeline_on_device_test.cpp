// A device's work in a timeline.
#include <gmock/gmock.h>

#include "parallel/timeline/trace_reader.h"
#include "support/simulated_device/device.h"
#include "support/temporary_folder.h"
#include "support/ticking_runtime.h"

#include "kolo/parallel/timeline.h"

namespace kolo::testing {
namespace {

constexpr double second = 1e6;  // in the trace's unit

// The host's span of that name, and the device's.
std::pair<TraceLine, TraceLine> both(const std::vector<TraceLine>& trace, const std::string& name) {
  auto found = named(trace, name);
  EXPECT_EQ(found.size(), 2U) << name;
  if (found.size() != 2) return {};
  if (found[0].row > found[1].row) std::swap(found[0], found[1]);
  return {found[0], found[1]};
}

// On the device a second passes from one moment to the next.
TEST(TimelineOfADevice, HasItsWorkOnARowOfItsOwnWithoutWaiting) {
  const TemporaryFolder folder;
  const auto runtime = std::make_shared<TickingRuntime>();
  {
    const Timeline timeline(Communicator::solo(), folder.path());
    timeline.show_device(simulated::device(), runtime);
    timeline.start();
    const auto waits_before = runtime->waits();
    {
      const auto step = timeline.step(1);
      { const auto forward = timeline.span("forward"); }
    }
    EXPECT_EQ(runtime->waits(), waits_before);
    timeline.stop();
  }
  const auto trace = read_trace(folder / "rank-00000.json");
  const auto [step, step_there] = both(trace, "step");
  const auto [forward, forward_there] = both(trace, "forward");
  EXPECT_LT(step.duration, second);
  EXPECT_EQ(step.row, forward.row);
  EXPECT_EQ(step_there.row, forward_there.row);
  EXPECT_NE(step.row, step_there.row);
  EXPECT_NEAR(forward_there.duration, second, 1);
  EXPECT_NEAR(step_there.duration, 3 * second, 1);
  EXPECT_TRUE(step_there.contains(forward_there));
}

TEST(TimelineOfADevice, LeavesOutWhatIsRecordedAsAGraph) {
  const TemporaryFolder folder;
  const auto runtime = std::make_shared<TickingRuntime>();
  {
    const Timeline timeline(Communicator::solo(), folder.path());
    timeline.show_device(simulated::device(), runtime);
    timeline.start();
    runtime->set_capturing(true);
    { const auto span = timeline.span("recorded"); }
  }
  EXPECT_EQ(named(read_trace(folder / "rank-00000.json"), "recorded").size(), 1U);
}

}  // namespace
}  // namespace kolo::testing
