#include "kolo/report/run_record.h"

#include <gmock/gmock.h>

namespace kolo {
namespace {

TEST(RunRecord, FindsCurvesByQuantityPartAndKind) {
  RunRecord run;
  run.curves = {{"loss", "training", false, {}},
                {"loss", "validation", false, {}},
                {"loss", "training", true, {}},
                {"learning_rate", "", false, {}}};
  EXPECT_EQ(run.find("loss", "training"), &run.curves[0]);
  EXPECT_EQ(run.find("loss", "validation"), &run.curves[1]);
  EXPECT_EQ(run.find("loss", "training", true), &run.curves[2]);
  EXPECT_EQ(run.find("learning_rate", ""), &run.curves[3]);
  EXPECT_EQ(run.find("learning_rate", "training"), nullptr);
  EXPECT_EQ(run.find("accuracy", "training"), nullptr);
}

}  // namespace
}  // namespace kolo
