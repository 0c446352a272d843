#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>

#include "kolo/parallel/pipeline_step.h"
#include "parallel/pipeline/pipelined_networks.h"
#include "support/rank_test.h"

// Dropout in ranks that are processes: threads of one process share the generator.
namespace kolo::testing {

namespace {

constexpr int dropout_micro_batches = 3;

torch::nn::Sequential dropout_network() {
  torch::nn::Sequential network;
  for (int i = 0; i < 4; ++i) {
    network->push_back("linear" + std::to_string(i), torch::nn::Linear(8, 8));
    network->push_back("drop" + std::to_string(i), torch::nn::Dropout(.5));
  }
  set_parameters(*network);
  return network;
}

struct DropoutRun {
  DropoutRun(const DeviceMesh& mesh, std::vector<std::size_t> bounds, PipelineSchedule schedule)
      : pipeline(mesh, stages_of(dropout_network()),
                 {.schedule = schedule,
                  .micro_batches = dropout_micro_batches,
                  .bounds = std::move(bounds),
                  .seed = 7}) {}
  void backward(std::int64_t step) {
    const PipelineStep::Batch batch{[](int i) {
                                      return noise_of({5, 8}, i);
                                    },
                                    [](const torch::Tensor& output, int) -> PipelineStep::Loss {
                                      return {output.square().mean(), {}};
                                    }};
    (void)pipeline.run(batch, step);
  }
  PipelineStep pipeline;
};

RANK_TEST(PipelineDropout, DrawsTheMasksOfOneRankWhereverItIsCut) {
  const DeviceMesh mesh(communicator, {.pipeline = communicator.size()});
  const DeviceMesh alone(Communicator::solo(), {});
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    DropoutRun shared(mesh, even_bounds(8, communicator.size()), schedule);
    DropoutRun whole(alone, {0, 8}, PipelineSchedule::gpipe);
    torch::manual_seed(communicator.rank());
    shared.backward(3);
    torch::manual_seed(99);
    whole.backward(3);
    const auto expected = whole.pipeline.module()->named_parameters();
    for (const auto& item : shared.pipeline.module()->named_parameters())
      EXPECT_TRUE(item.value().grad().equal(expected[item.key()].grad())) << item.key();
    const auto before = expected["linear0.weight"].grad().clone();
    for (const auto& item : expected) item.value().grad().zero_();
    whole.backward(4);
    EXPECT_FALSE(expected["linear0.weight"].grad().equal(before));
  }
}

}  // namespace

}  // namespace kolo::testing
