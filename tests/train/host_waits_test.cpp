// A step is given to the device, and nobody waits for it; on a GPU that hides what the host does.

#include "support/test_devices.h"
#include "train/cuda_waits.h"
#include "train/training_fixture.h"

#include "kolo/base/checked.h"

namespace kolo::testing {
namespace {

constexpr int steps = 3;

// As long as it lives, what waits for a GPU is an error (of LibTorch).
class NoCudaWaits {
 public:
  NoCudaWaits() { refuse_cuda_waits(true); }
  NoCudaWaits(const NoCudaWaits&) = delete;
  NoCudaWaits& operator=(const NoCudaWaits&) = delete;
  ~NoCudaWaits() { refuse_cuda_waits(false); }
};

// The simulated device has no optimizer's kernel: gradients, parameters and the momentum go to the
// host, and the latter two back.
std::int64_t waits_of_updates(const Trainer& trainer) {
  return is_gpu_wanted() ? 0 : 5 * narrow<std::int64_t>(trainer.plan().buckets.size());
}

// Per step and rank, without what the optimizer's steps need.
std::int64_t waits_of_steps(const std::function<void(TrainerOptions&)>& change) {
  TrainingSetup setup{.dropout = 0, .top = 2, .change = change, .device = test_device};
  const auto solo = Communicator::solo(test_device_options());
  SmallTraining training(solo, setup);
  auto& trainer = training.trainer();
  const auto batch = Batch{torch::ones({8, 1, 16, 16}).to(test_device(0)),
                           torch::zeros({8}, torch::kLong).to(test_device(0)),
                           {},
                           8};
  trainer.step(batch);
  const auto before = simulated::host_waits();
  {
    const NoCudaWaits scope;
    for (int step = 0; step < steps; ++step) trainer.step(batch);
  }
  const auto waits = simulated::host_waits() - before;
  trainer.settle();
  EXPECT_EQ(trainer.state().step, steps + 1);
  EXPECT_EQ(trainer.state().sums.samples, 8 * (steps + 1)) << "settled, the last one counts too";
  EXPECT_EQ(waits % steps, 0);
  return waits / steps - waits_of_updates(trainer);
}

TEST(StepsOnADevice, WaitForNothing) {
  EXPECT_EQ(waits_of_steps([](TrainerOptions&) {}), 0);
  EXPECT_EQ(waits_of_steps([](TrainerOptions& options) { options.clip_norm = .1; }), 0);
  EXPECT_EQ(
      waits_of_steps([](TrainerOptions& options) { options.non_finite = NonFiniteStep::skip; }), 0);
  EXPECT_EQ(waits_of_steps([](TrainerOptions& options) {
              options.loss_scale.emplace();
              options.clip_norm = .1;
            }),
            0);
}

}  // namespace
}  // namespace kolo::testing
