// kolo train is asked to stop while it does something else than steps; tests/run has the phases of
// a run.
#include <csignal>

#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class TrainSignals : public Runs {
 protected:
  TrainSignals()
      : Runs(
            "data: {name: dummy, input_shape: [3, 16, 16], n_train: 64, n_valid: 16, n_classes: "
            "4}\n"
            "model: {name: cnn}\n"
            "optimizer: {name: sgd}\n"
            "training: {batch_size: 8}\n") {}

  // Sends in a validation that would take minutes, which a stop ends.
  [[nodiscard]] ProcessResult in_validation(const std::function<void(pid_t)>& send,
                                            const std::vector<std::string>& more = {}) {
    const std::vector<std::string> slow{"training.validation_batch_size=1", "data.n_valid=4000000"};
    return run_kolo_and(arguments(joined(more, slow)), [&](pid_t kolo) {
      EXPECT_TRUE(wait_for_text(folder / "run" / "out.log", "model cnn: "));
      send(kolo);
    });
  }
  [[nodiscard]] ProcessResult two_ranks_in_validation(const std::function<void(pid_t)>& send) {
    return in_validation(send, {"-n", "2", "--oversubscribe"});
  }

  void expect_saved(const ProcessResult& result, std::int64_t step) const {
    EXPECT_EQ(result.exit_code, 75) << result.output << result.errors;
    EXPECT_TRUE(says(result.output, {"stopped "}));
    EXPECT_EQ(result.left_behind, 0);
    const auto all = store().list();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all.front().step, step);
  }
};

TEST_F(TrainSignals, WithinAValidation) {
  const auto result = two_ranks_in_validation([](pid_t kolo) { ::kill(kolo, SIGINT); });
  expect_saved(result, 0);
  EXPECT_TRUE(succeeds(train({"-n", "2", "--oversubscribe", "--resume", "data.n_valid=16"})));
}

TEST_F(TrainSignals, OfATerminalThatIsClosed) {
  expect_saved(in_validation([](pid_t kolo) { ::kill(kolo, SIGHUP); }), 0);
  std::filesystem::remove_all(folder / "run");
  const auto to_ranks = [this](pid_t) {
    for (const int rank : {0, 1}) EXPECT_TRUE(signal_rank(rank, folder / "run", SIGHUP));
  };
  expect_saved(two_ranks_in_validation(to_ranks), 0);
}

}  // namespace
}  // namespace kolo::testing
