#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/pipeline_state.h"
#include "kolo/parallel/training_step.h"
#include "parallel/pipeline/pipelined_networks.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

// Whole training steps of a network in parts, and its parts brought together.
namespace kolo::testing {

namespace {

constexpr int micro_batches = 4;

torch::Tensor training_input(int data, std::int64_t step, int micro_batch) {
  return noise_of({3, 3, 12, 12}, 1000 * data + 10 * step + micro_batch);
}

PipelineStep::Loss training_loss(const torch::Tensor& output, double factor) {
  const auto loss = output.square().mean() * factor;
  return {loss, torch::tensor({loss.item<double>() / micro_batches, 1.}, torch::kDouble)};
}

// A mesh of pipelines of two or more ranks, or of one alone.
DeviceMesh pipelines_of(const Communicator& communicator) {
  const bool is_even = communicator.size() % 2 == 0;
  return DeviceMesh(communicator, {.pipeline = is_even ? 2 : communicator.size()});
}

// This rank's part of a training, and the same whole on one rank.
struct PipelinedTraining {
  PipelinedTraining(const DeviceMesh& of, StepSettings options)
      : mesh(of),
        pipeline(mesh, stages_of(image_network()),
                 {.micro_batches = micro_batches,
                  .bounds = even_bounds(10, mesh.length(MeshAxis::pipe)),
                  .sums = 2}) {
    options.world = mesh.world();
    step.emplace(mesh.replicas(), pipeline.module(), make_adam({}), options);
  }
  TrainingStep::Outcome make(std::int64_t number, double factor = 1) {
    const int data_rank = mesh.coordinate(MeshAxis::data);
    const PipelineStep::Batch batch{
        [=](int i) { return training_input(data_rank, number, i); },
        [=](const torch::Tensor& output, int) { return training_loss(output, factor); }};
    step->begin(number);
    step->add(pipeline.run(batch, number, step->pipeline()));
    return step->end(step->finish(.01));
  }

  DeviceMesh mesh;
  PipelineStep pipeline;
  std::optional<TrainingStep> step;
};

struct WholeTraining {
  explicit WholeTraining(const StepSettings& options)
      : network(image_network()),
        step(Communicator::solo(), network.ptr(), make_adam({}), options) {}
  TrainingStep::Outcome make(std::int64_t number, int data_ranks, double factor = 1) {
    step.begin(number);
    for (int data_rank = 0; data_rank < data_ranks; ++data_rank) {
      for (int i = 0; i < micro_batches; ++i) {
        const auto [loss, numbers] =
            training_loss(network->forward(training_input(data_rank, number, i)), factor);
        step.backward(loss / micro_batches / data_ranks, numbers, 1,
                      data_rank + 1 == data_ranks && i + 1 == micro_batches);
      }
    }
    return step.end(step.finish(.01));
  }

  torch::nn::Sequential network;
  TrainingStep step;
};

// Batch norms see the samples of one replica, so statistics are left out.
void expect_close_parameters(const torch::nn::Module& part, const torch::nn::Module& whole) {
  for (const auto& item : part.named_parameters()) {
    EXPECT_TRUE(torch::allclose(item.value(), whole.named_parameters()[item.key()], 1e-5, 1e-6))
        << item.key();
  }
}

RANK_TEST(PipelinedTraining, MakesTheStepsOfOneRank) {
  const auto mesh = pipelines_of(communicator);
  const int data_ranks = mesh.length(MeshAxis::data);
  for (const double norm : {0., .05}) {
    for (const bool scales : {false, true}) {
      StepSettings options{.buckets = {256, 1024}, .clip_norm = norm};
      if (scales) options.loss_scale = LossScaleOptions{};
      PipelinedTraining training(mesh, options);
      WholeTraining whole(options);
      for (std::int64_t number = 1; number <= 3; ++number) {
        const auto mine = training.make(number), expected = whole.make(number, data_ranks);
        ASSERT_EQ(mine.sums.size(), 2U);
        EXPECT_NEAR(mine.sums[0], expected.sums[0], 1e-5);
        EXPECT_EQ(mine.sums[1], micro_batches * data_ranks);
        EXPECT_TRUE(mine.is_made);
      }
      expect_close_parameters(*training.pipeline.module(), *whole.network);
    }
  }
}

// All ranks know of gradients that are not finite in one part.
RANK_TEST(PipelinedTraining, LeavesOutAStepOnAllRanksTogether) {
  const auto mesh = pipelines_of(communicator);
  PipelinedTraining training(mesh, {.non_finite = NonFiniteStep::skip});
  EXPECT_TRUE(training.make(1).is_made);
  std::map<std::string, torch::Tensor> before;
  for (const auto& item : named_tensors_of(*training.pipeline.module()))
    before[item.name] = item.tensor.detach().clone();
  const double infinity = std::numeric_limits<double>::infinity();
  const bool is_bad = mesh.coordinate(MeshAxis::data) == 0;
  EXPECT_FALSE(training.make(2, is_bad ? infinity : 1).is_made);
  for (const auto& item : named_tensors_of(*training.pipeline.module()))
    EXPECT_TRUE(item.tensor.equal(before[item.name])) << item.name;
  EXPECT_TRUE(training.make(3).is_made);
}

RANK_TEST(PipelinedTraining, NamesAllPartsParametersWhereStepsAreNeverFinite) {
  const auto mesh = pipelines_of(communicator);
  PipelinedTraining training(mesh, {.non_finite = NonFiniteStep::skip});
  const double infinity = std::numeric_limits<double>::infinity();
  std::int64_t number = 0;
  const auto message = message_of<Error>([&] {
    while (++number < 50) (void)training.make(number, infinity);
  });
  EXPECT_TRUE(says(message, {"first.weight", "last.weight"}));
}

RANK_TEST(PipelineState, TravelsToOneRankAndBack) {
  const auto mesh = pipelines_of(communicator);
  const auto& pipe = mesh.axis(MeshAxis::pipe);
  PipelinedTraining training(mesh, {});
  (void)training.make(1);
  auto mine = named_tensors_of(*training.pipeline.module());
  for (const auto& item : training.step->optimizer().named_state())
    mine.push_back({item.name, item.tensor});
  std::map<std::string, torch::Tensor> whole;
  collect_tensors(pipe, mine, [&](const OwnedTensor& tensor, torch::Tensor value) {
    EXPECT_EQ(value.sizes(), torch::IntArrayRef(tensor.sizes));
    whole[tensor.name] = std::move(value);
  });
  if (pipe.rank() == 0) {
    const auto network = image_network();
    for (const auto& item : named_tensors_of(*network))
      EXPECT_TRUE(whole.contains(item.name)) << item.name;
    for (const auto& item : network->named_parameters())
      EXPECT_TRUE(whole.contains(item.key() + ".exp_avg")) << item.key();
  } else {
    EXPECT_TRUE(whole.empty());
  }
  std::vector<torch::Tensor> expected;
  for (const auto& item : mine) {
    expected.push_back(item.tensor.detach().clone());
    item.tensor.detach().zero_();
  }
  hand_out_tensors(pipe, mine, [&](const OwnedTensor& tensor) { return whole.at(tensor.name); });
  for (std::size_t i = 0; i < mine.size(); ++i)
    EXPECT_TRUE(mine[i].tensor.equal(expected[i])) << mine[i].name;
}

TEST(PipelineStages, RefuseTensorsThatPartsShareOrNoneHas) {
  auto network = image_network();
  auto stages = stages_of(network);
  EXPECT_NO_THROW(require_whole_chain(*network, stages));
  stages.back().modules.push_back(stages.front().modules.front());
  const std::vector<std::size_t> bounds{0, 5, 10};
  EXPECT_TRUE(says(message_of<InputError>([&] { require_parts(stages, bounds); }),
                   {"first.weight (part 0) and first.weight (part 1) are one tensor"}));
  stages.back().modules.clear();
  EXPECT_TRUE(says(message_of<InputError>([&] { require_whole_chain(*network, stages); }),
                   {"2 of the network's parameters and buffers are in none of its stages, so "
                    "no rank would have them: last.weight, last.bias"}));
}

}  // namespace

}  // namespace kolo::testing
