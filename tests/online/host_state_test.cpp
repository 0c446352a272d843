#include <cfenv>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

#include "online/linear_task.h"

extern "C" {
int omp_get_max_threads() __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));
}

namespace kolo {
namespace {

// All that a call must leave as it was.
struct ProgramState {
  int threads = 0, traps = 0, rounding = 0;
  cpu_set_t processors{};
  std::vector<struct sigaction> actions;

  static ProgramState now() {
    ProgramState state;
    state.threads = omp_get_max_threads();
    state.traps = fegetexcept();
    state.rounding = std::fegetround();
    sched_getaffinity(0, sizeof(state.processors), &state.processors);
    for (int signal = 1; signal < 32; ++signal) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      state.actions.push_back(action);
    }
    return state;
  }
};

void expect_same(const ProgramState& a, const ProgramState& b, const char* call) {
  EXPECT_EQ(a.threads, b.threads) << call;
  EXPECT_EQ(a.traps, b.traps) << call;
  EXPECT_EQ(a.rounding, b.rounding) << call;
  EXPECT_TRUE(CPU_EQUAL(&a.processors, &b.processors)) << call;
  for (std::size_t i = 0; i < a.actions.size(); ++i)
    EXPECT_EQ(a.actions[i].sa_handler, b.actions[i].sa_handler) << call << ", signal " << i + 1;
}

void call_all() {
  omp_set_num_threads(3);
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  std::fesetround(FE_DOWNWARD);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  sched_setaffinity(0, sizeof(one), &one);
  const auto before = ProgramState::now();
  std::mt19937 random(1);
  testing::Cells cells(random, 64);
  std::vector<double> found(64);
  {
    OnlineNetwork network(Communicator::solo(),
                          testing::linear_config({"training.background=true"}));
    expect_same(before, ProgramState::now(), "network_create");
    network.push(cells.inputs(), cells.targets());
    expect_same(before, ProgramState::now(), "push");
    (void)network.train(cells.inputs(), cells.targets());
    expect_same(before, ProgramState::now(), "train");
    network.infer(cells.inputs(), std::vector{cells.array(found)});
    expect_same(before, ProgramState::now(), "infer");
    network.start();
    expect_same(before, ProgramState::now(), "start");
    for (int i = 0; i < 50; ++i) network.tick(i);
    expect_same(before, ProgramState::now(), "tick");
    network.pause();
    expect_same(before, ProgramState::now(), "pause");
  }
  expect_same(before, ProgramState::now(), "network_destroy");
  fedisableexcept(FE_ALL_EXCEPT);
}

// In a thread of its own, in which LibTorch has not computed before.
TEST(HostState, IsLeftAsItWas) {
  ASSERT_NE(omp_get_max_threads, nullptr);
  std::thread(call_all).join();
}

}  // namespace
}  // namespace kolo
