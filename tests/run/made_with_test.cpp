// Name of the processor that a checkpoint was made with.
#include "run/strict_resume.h"

#include <gtest/gtest.h>

namespace kolo::testing {
namespace {

TEST(ProcessorName, HasNameFamilyAndModel) {
  EXPECT_EQ(processor_name("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: "
                           "143\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\nstepping\t: 8\n\n"
                           "processor\t: 1\nmodel name\t: other\n"),
            "intel-r-xeon-r-platinum-8480-6-143");
  EXPECT_EQ(processor_name("processor : 0\nBogoMIPS : 50\n"), "processor");
  EXPECT_EQ(processor_name(""), "processor");
}

}  // namespace
}  // namespace kolo::testing
