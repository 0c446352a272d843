#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "kolo/comm/threads.h"
#include "kolo/layout/stage_cut.h"
#include "kolo/nn/network.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/pipeline_stages.h"
#include "kolo/parallel/pipeline_step.h"
#include "kolo/parallel/training_step.h"
#include "support/small_models.h"

// Kolo's networks, with their kernels, in pipelines: the bits of accumulation on one rank.
namespace kolo::testing {
namespace {

constexpr int micro_batches = 3;
constexpr std::int64_t per_micro_batch = 2, steps = 2;
constexpr double rate = .01;

// All ranks' threads share LibTorch's generator, so each draws from its own.
torch::Tensor samples_of(const SmallModel& model, std::int64_t seed) {
  std::vector<std::int64_t> shape{per_micro_batch};
  const auto& sizes = model.options.input_shape;
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  return torch::randn(shape, at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed)));
}

std::vector<std::size_t> bounds_of(Network& network, const SmallModel& model, int parts) {
  std::vector<ChainStage> costs;
  for (const auto& stage : summarize_stages(network, model.options.input_shape))
    costs.push_back({static_cast<double>(stage.flops), 4 * stage.elements});
  return cut_stages(costs, parts);
}

PipelineStep::Loss loss_of(const torch::Tensor& output) {
  return {output.square().mean(), torch::empty({0}, torch::kDouble)};
}

using Tensors = std::map<std::string, torch::Tensor>;

Tensors tensors_of(const torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

// A network that all ranks make alike.
std::shared_ptr<Network> made(const SmallModel& model) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(1);
  return make_network(model.name, model.options);
}

Tensors train_alone(const SmallModel& model) {
  const auto network = made(model);
  TrainingStep step(Communicator::solo(), network, make_sgd({.momentum = .9}));
  for (std::int64_t number = 1; number <= steps; ++number) {
    step.begin(number);
    for (int i = 0; i < micro_batches; ++i) {
      const auto output = network->forward(samples_of(model, 100 * number + i));
      step.backward(loss_of(output).loss / micro_batches, {}, 1, i + 1 == micro_batches);
    }
    (void)step.end(step.finish(rate));
  }
  return tensors_of(*network);
}

struct Layout {
  PipelineSchedule schedule;
  int ranks;
  bool recompute = false;
};

void expect_bits_of(const Tensors& expected, const SmallModel& model, const Layout& layout) {
  run_as_threads(layout.ranks, [&](const Communicator& communicator) {
    const DeviceMesh mesh(communicator, {.pipeline = layout.ranks});
    auto network = made(model);
    auto stages = network->stages();
    require_whole_chain(*network, stages);
    const auto bounds = bounds_of(*network, model, layout.ranks);
    network.reset();
    if (layout.recompute) stages = recomputed(std::move(stages));
    PipelineStep pipeline(
        mesh, std::move(stages),
        {.schedule = layout.schedule, .micro_batches = micro_batches, .bounds = bounds});
    TrainingStep step(mesh.replicas(), pipeline.module(), make_sgd({.momentum = .9}),
                      {.world = mesh.world()});
    for (std::int64_t number = 1; number <= steps; ++number) {
      const PipelineStep::Batch batch{
          [&](int i) { return samples_of(model, 100 * number + i); },
          [](const torch::Tensor& output, int) { return loss_of(output); }};
      step.begin(number);
      step.add(pipeline.run(batch, number, step.pipeline()));
      (void)step.end(step.finish(rate));
    }
    for (const auto& [name, tensor] : tensors_of(*pipeline.module()))
      EXPECT_TRUE(tensor.equal(expected.at(name)))
          << name << " of " << model.name << ", " << kolo::name_of(layout.schedule) << " on "
          << layout.ranks << (layout.recompute ? ", recomputed" : "");
  });
}

class PipelinedNetworks : public ::testing::TestWithParam<SmallModel> {};

TEST_P(PipelinedNetworks, TrainAsOnOneRankToTheBit) {
  const auto expected = train_alone(GetParam());
  for (const bool recompute : {false, true}) {
    for (const int ranks : {2, 4})
      expect_bits_of(expected, GetParam(), {PipelineSchedule::one_f_one_b, ranks, recompute});
    expect_bits_of(expected, GetParam(), {PipelineSchedule::gpipe, 3, recompute});
  }
}

// resnet50 takes long to make, and is of the same blocks as resnet_small. mlp has three stages
// unless it is told more widths, too few for the longest pipeline here.
std::vector<SmallModel> pipelined_models() {
  auto models = small_models();
  std::erase_if(models, [](const SmallModel& model) {
    return model.name == "resnet50" || model.name == "mlp";
  });
  return models;
}

INSTANTIATE_TEST_SUITE_P(Networks, PipelinedNetworks, ::testing::ValuesIn(pipelined_models()),
                         name_of);

}  // namespace
}  // namespace kolo::testing
