// Steps on devices in a build without CUDA.
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "optim/every_optimizer.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

TEST(DeviceStepLeftOut, IsAnErrorThatSaysHowToBuild) {
  for (const auto& each : testing::every_optimizer()) {
    const StepConstants constants{};
    std::vector<std::byte> workspace(each.optimizer->device_workspace_bytes(0));
    const auto message = testing::message_of<Error>([&] {
      each.optimizer->update_on_device(FlatSlice<float>{},
                                       {.constants = &constants, .workspace = workspace});
    });
    EXPECT_TRUE(says(message, {"kolo was built without CUDA; build it with -D KOLO_CUDA=ON"}))
        << each.label;
  }
}

}  // namespace
}  // namespace kolo
