#include "kolo/base/nvml.h"

#include <gmock/gmock.h>

#include "support/fake_nvml.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::fake_nvml;
using testing::fake_nvml_place;
using ::testing::Optional;

class NvmlTest : public ::testing::Test {
 protected:
  void TearDown() override {
    fake_nvml.init_status = fake_nvml.power_status = fake_nvml.utilization_status = 0;
  }
};

TEST_F(NvmlTest, ReadsADeviceByItsPlace) {
  const auto nvml = std::make_shared<Nvml>(KOLO_FAKE_NVML);
  EXPECT_EQ(nvml->problem(), "");
  EXPECT_EQ(nvml->driver_version(), "580.65.06");
  EXPECT_EQ(nvml->cuda_version(), "12.8");
  const NvmlDevice device(nvml, fake_nvml_place);
  EXPECT_EQ(device.problem(), "");
  const auto reading = device.read();
  EXPECT_THAT(reading.watts, Optional(300.));
  EXPECT_THAT(reading.joules, Optional(5000.));
  EXPECT_THAT(reading.utilization, Optional(.5));
  EXPECT_THAT(reading.megahertz, Optional(1980.));
  EXPECT_THAT(reading.celsius, Optional(60.));
  EXPECT_THAT(device.limit_watts(), Optional(700.));
}

TEST_F(NvmlTest, AFunctionThatRefusesLeavesTheOthers) {
  fake_nvml.power_status = 3;
  const NvmlDevice device(std::make_shared<Nvml>(KOLO_FAKE_NVML), fake_nvml_place);
  EXPECT_EQ(device.read().watts, std::nullopt);
  EXPECT_THAT(device.read().celsius, Optional(60.));
}

TEST_F(NvmlTest, FunctionsThatAreMissingLeaveTheOthers) {
  const NvmlDevice device(std::make_shared<Nvml>(KOLO_OLD_FAKE_NVML), fake_nvml_place);
  EXPECT_EQ(device.problem(), "");
  EXPECT_EQ(device.read().joules, std::nullopt);
  EXPECT_EQ(device.read().megahertz, std::nullopt);
  EXPECT_THAT(device.read().watts, Optional(300.));
}

TEST_F(NvmlTest, WhatIsMissingIsAProblemThatSaysSo) {
  const auto none = std::make_shared<Nvml>("libno-nvidia.so.1");
  EXPECT_TRUE(says(none->problem(), {"libno-nvidia.so.1"}));
  EXPECT_EQ(none->driver_version(), "");
  EXPECT_EQ(none->cuda_version(), "");
  const NvmlDevice device(none, fake_nvml_place);
  EXPECT_EQ(device.problem(), none->problem());
  EXPECT_EQ(device.read().watts, std::nullopt);
  EXPECT_EQ(device.limit_watts(), std::nullopt);

  EXPECT_TRUE(says(Nvml("libm.so.6").problem(), {"libm.so.6 has no nvmlInit_v2"}));
  fake_nvml.init_status = 9;
  EXPECT_TRUE(says(Nvml(KOLO_FAKE_NVML).problem(), {"does not start: Driver Not Loaded"}));
}

TEST_F(NvmlTest, ADeviceThatIsNotThereIsAProblem) {
  const NvmlDevice device(std::make_shared<Nvml>(KOLO_FAKE_NVML), "0000:99:00.0");
  EXPECT_TRUE(says(device.problem(), {"PCI 0000:99:00.0: Not Found"}));
  EXPECT_EQ(device.read().watts, std::nullopt);
}

TEST_F(NvmlTest, EndsWhatItStarted) {
  const int before = fake_nvml.started;
  {
    const Nvml nvml(KOLO_FAKE_NVML);
    EXPECT_EQ(fake_nvml.started, before + 1);
  }
  EXPECT_EQ(fake_nvml.started, before);
}

}  // namespace
}  // namespace kolo
