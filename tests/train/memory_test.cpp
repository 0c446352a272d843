// A process's memory does not grow with the steps it trains.
#include "kolo/base/machine.h"
#include "train/training_fixture.h"

namespace kolo {
namespace {

TEST(Memory, DoesNotGrowOver50Steps) {
  keep_freed_memory();
  const std::vector<std::int64_t> input{4, 16, 16, 16}, output{5, 16, 16, 16};
  const SampleLayout layout{input, 0, output};
  const auto data = std::make_shared<RandomDataset>(layout, 140, 1);
  Loader training(data, {140, 0, 1, {true, 1, Padding::repeat}}, {.batch_size = 2});
  Loader validation(data, {140, 0, 1, {false, 0, Padding::none}}, {.batch_size = 2});
  const auto network = make_network(
      "unet3d",
      {.input_shape = input, .classes = 0, .output_shape = output, .levels = 3, .channels = 8});
  Trainer trainer(Communicator::solo(), network, {.loss = make_loss("l1"), .counts_correct = false},
                  make_adam({}), LearningRate({.base_rate = 1e-3}), training, validation, {});
  std::vector<std::uint64_t> bytes;
  testing::AtSteps recorder([&](const StepReport&) { bytes.push_back(resident_bytes()); });
  trainer.add_observer(recorder);
  EXPECT_EQ(trainer.run(), TrainOutcome::finished);
  ASSERT_EQ(bytes.size(), 70U);
  // The allocator's own rounding.
  EXPECT_LE(bytes[69], bytes[19] + (1U << 20));
  // The system counts in batches.
  EXPECT_LE(bytes[69], peak_resident_bytes() + (1U << 20));
}

}  // namespace
}  // namespace kolo
