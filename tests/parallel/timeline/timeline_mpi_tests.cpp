// The cases of the timeline under mpirun.
#include <gmock/gmock.h>

#include "kolo/comm/mpi.h"
#include "parallel/timeline/timeline_cases.h"

namespace kolo::testing {
namespace {

class TimelineMpi : public ::testing::TestWithParam<RankCase> {};

TEST_P(TimelineMpi, Case) {
  GetParam().run(mpi_communicator());
}
TEST_P(TimelineMpi, CaseOverNodes) {
  const int size = mpi_communicator().size();
  if (size == 1) return;
  MpiOptions options;
  options.ranks_on_nodes = {1, size - 1};
  GetParam().run(mpi_communicator(options));
}

INSTANTIATE_TEST_SUITE_P(All, TimelineMpi,
                         ::testing::ValuesIn(timeline_cases().begin(), timeline_cases().end()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace kolo::testing
