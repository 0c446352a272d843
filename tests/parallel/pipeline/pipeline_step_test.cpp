#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "kolo/parallel/pipeline_step.h"
#include "parallel/pipeline/pipelined_networks.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

constexpr std::int64_t samples = 3;  // per micro-batch
constexpr int steps = 3;

struct Case {
  PipelineSchedule schedule = PipelineSchedule::gpipe;
  int micro_batches = 1;
  bool skips = false;
  bool adam = false;
};

// A whole network with its chain.
struct Chain {
  std::shared_ptr<torch::nn::Module> network;
  std::vector<NetworkStage> stages;

  explicit Chain(bool skips) {
    if (skips) {
      const auto made = std::make_shared<SkipNetwork>();
      network = made;
      stages = made->stages();
    } else {
      auto made = image_network();
      network = made.ptr();
      stages = stages_of(made);
    }
  }
};

torch::Tensor input_of(bool skips, std::int64_t seed) {
  return skips ? noise_of({samples, SkipNetwork::inputs}, seed)
               : noise_of({samples, 3, 12, 12}, seed);
}
torch::Tensor target_of(bool skips, std::int64_t seed) {
  return noise_of({samples, skips ? 3 : 5}, seed + 50'000);
}
std::int64_t seed_of(int data, int step, int micro_batch) {
  return 1000 * data + 100 * step + micro_batch;
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const torch::nn::Module& module, bool adam) {
  if (adam) return std::make_unique<torch::optim::Adam>(module.parameters(), .01);
  return std::make_unique<torch::optim::SGD>(module.parameters(),
                                             torch::optim::SGDOptions(.05).momentum(.9));
}

PipelineStep::Loss loss_of(const Case& test, const torch::Tensor& output, std::int64_t seed) {
  const auto loss = torch::mse_loss(output, target_of(test.skips, seed));
  return {loss, torch::tensor({loss.item<double>(), double(output.size(0))}, torch::kDouble)};
}

// One rank that adds up the gradients of all micro-batches.
struct Reference {
  Reference(const Case& of, int data) : test(of), chain(of.skips), data_rank(data) {
    optimizer = optimizer_of(*chain.network, test.adam);
  }
  std::vector<double> backward(int step) {
    std::vector<double> sums(2);
    for (int i = 0; i < test.micro_batches; ++i) {
      const auto seed = seed_of(data_rank, step, i);
      const auto output = run_stages(chain.stages, {input_of(test.skips, seed)}).front();
      const auto [loss, numbers] = loss_of(test, output, seed);
      (loss / test.micro_batches).backward();
      for (std::size_t n = 0; n < sums.size(); ++n)
        sums[n] += numbers[static_cast<std::int64_t>(n)].item<double>();
    }
    return sums;
  }

  Case test;
  Chain chain;
  int data_rank;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

PipelineStep::Batch batch_of(const Case& test, int data, int step) {
  return {[=](int i) { return input_of(test.skips, seed_of(data, step, i)); },
          [=](const torch::Tensor& output, int i) {
            return loss_of(test, output, seed_of(data, step, i));
          }};
}

PipelineStepOptions options_of(const Case& test, const Chain& chain, int ranks) {
  return {.schedule = test.schedule,
          .micro_batches = test.micro_batches,
          .bounds = even_bounds(chain.stages.size(), ranks),
          .sums = 2};
}

void expect_same_tensors(const torch::nn::Module& part, const torch::nn::Module& whole,
                         const std::string& what) {
  const auto parameters = whole.named_parameters(), buffers = whole.named_buffers();
  for (const auto& item : part.named_parameters())
    EXPECT_TRUE(item.value().equal(parameters[item.key()])) << item.key() << ", " << what;
  for (const auto& item : part.named_buffers())
    EXPECT_TRUE(item.value().equal(buffers[item.key()])) << item.key() << ", " << what;
}

std::string describe(const Case& test) {
  return fmt::format("{} with {} micro-batches{}", name_of(test.schedule), test.micro_batches,
                     test.skips ? ", skips" : "");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool skips : {false, true}) {
    for (const int micro_batches : {1, 2, 3, 5, 8}) {
      for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b})
        cases.push_back({schedule, micro_batches, skips, micro_batches % 2 == 0});
    }
  }
  return cases;
}

RANK_TEST(PipelineStep, TrainsAsAccumulationOnOneRankDoesToTheBit) {
  const DeviceMesh mesh(communicator, {.pipeline = communicator.size()});
  for (const auto& test : all_cases()) {
    Reference reference(test, 0);
    Chain chain(test.skips);
    PipelineStep pipeline(mesh, chain.stages, options_of(test, chain, communicator.size()));
    const auto optimizer = optimizer_of(*pipeline.module(), test.adam);
    for (int step = 0; step < steps; ++step) {
      reference.optimizer->zero_grad();
      optimizer->zero_grad();
      const auto expected = reference.backward(step);
      const auto sums = pipeline.run(batch_of(test, 0, step), step);
      ASSERT_EQ(sums.numel(), 2);
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(sums[i].item<double>(),
                  pipeline.is_last() ? expected[static_cast<std::size_t>(i)] : 0);
      }
      reference.optimizer->step();
      optimizer->step();
    }
    expect_same_tensors(*pipeline.module(), *reference.chain.network, describe(test));
  }
}

// A rank doesn't hold the rest of the network.
RANK_TEST(PipelineStep, KeepsThisRanksPartAloneUnderItsNames) {
  const DeviceMesh mesh(communicator, {.pipeline = communicator.size()});
  std::vector<std::pair<std::string, torch::Tensor>> all;
  std::vector<std::weak_ptr<torch::nn::Module>> modules;
  const Case test;
  std::optional<Chain> chain(test.skips);
  for (const auto& stage : chain->stages) modules.push_back(stage.modules.front().module);
  PipelineStep pipeline(mesh, chain->stages, options_of(test, *chain, communicator.size()));
  const auto bounds = even_bounds(modules.size(), communicator.size());
  chain.reset();
  const auto rank = static_cast<std::size_t>(communicator.rank());
  for (std::size_t stage = 0; stage < modules.size(); ++stage) {
    const bool is_mine = stage >= bounds[rank] && stage < bounds[rank + 1];
    EXPECT_EQ(modules[stage].expired(), !is_mine) << stage;
  }
  const Chain whole(test.skips);
  std::int64_t found = 0;
  for (const auto& item : pipeline.module()->named_parameters()) {
    EXPECT_TRUE(whole.network->named_parameters().contains(item.key())) << item.key();
    ++found;
  }
  EXPECT_EQ(all_reduce_value(communicator, found),
            static_cast<std::int64_t>(whole.network->named_parameters().size()));
}

// Gradients are averaged along the data axis while the last backward passes run.
RANK_TEST(PipelineStep, IsCombinedWithDataParallelRanks) {
  if (communicator.size() % 2 != 0) return;
  const DeviceMesh mesh(communicator, {.pipeline = 2});
  const int data_ranks = mesh.length(MeshAxis::data), data_rank = mesh.coordinate(MeshAxis::data);
  for (const auto& test : all_cases()) {
    std::vector<Reference> references;
    for (int data = 0; data < data_ranks; ++data) references.emplace_back(test, data);
    Chain chain(test.skips);
    PipelineStep pipeline(mesh, chain.stages, options_of(test, chain, 2));
    GradientReducer reducer(mesh.replicas(), *pipeline.module());
    for (int step = 0; step < 2; ++step) {
      for (auto& reference : references) {
        reference.chain.network->zero_grad(true);
        (void)reference.backward(step);
      }
      reducer.clear_gradients();
      (void)pipeline.run(batch_of(test, data_rank, step), step, {.reducer = &reducer});
      reducer.finish();
      for (const auto& item : pipeline.module()->named_parameters()) {
        auto mean = torch::zeros_like(item.value());
        for (auto& reference : references)
          mean += reference.chain.network->named_parameters()[item.key()].grad() / data_ranks;
        EXPECT_TRUE(torch::allclose(item.value().grad(), mean, 1e-6, 1e-7))
            << item.key() << ", " << describe(test);
      }
    }
  }
}

RANK_TEST(PipelineStep, EvaluatesBatchesOfOtherSizes) {
  const DeviceMesh mesh(communicator, {.pipeline = communicator.size()});
  const Case test{PipelineSchedule::one_f_one_b, 2};
  Chain chain(test.skips), whole(test.skips);
  PipelineStep pipeline(mesh, chain.stages, options_of(test, chain, communicator.size()));
  (void)pipeline.run(batch_of(test, 0, 0), 0);
  pipeline.module()->eval();
  whole.network->eval();
  const auto buffers = pipeline.module()->named_buffers();
  for (const auto& item : whole.network->named_buffers()) {
    if (const auto* trained = buffers.find(item.key())) item.value().copy_(*trained);
  }
  for (const auto& [size, count] : {std::pair{4, 3}, std::pair{1, 1}, std::pair{2, 5}}) {
    double shown = 0;
    const PipelineStep::Batch batch{
        [size = size](int i) {
          return noise_of({size, 3, 12, 12}, i);
        },
        [&](const torch::Tensor& output, int) -> PipelineStep::Loss {
          EXPECT_FALSE(output.requires_grad());
          shown += output.sum().item<double>();
          return {{}, torch::tensor({1., double(output.size(0))}, torch::kDouble)};
        }};
    const auto sums = pipeline.evaluate(batch, count);
    if (!pipeline.is_last()) continue;
    EXPECT_EQ(sums[0].item<double>(), count);
    EXPECT_EQ(sums[1].item<double>(), size * count);
    if (communicator.size() > 1) continue;  // the running statistics are other ranks'
    double expected = 0;
    const torch::NoGradGuard no_gradient;
    for (int i = 0; i < count; ++i)
      expected += run_stages(whole.stages, {batch.input(i)}).front().sum().item<double>();
    EXPECT_EQ(shown, expected);
  }
}

RANK_TEST(PipelineStep, NamesBothShapesWhereAMicroBatchIsUnlikeTheFirst) {
  if (communicator.size() != 2) return;
  const DeviceMesh mesh(communicator, {.pipeline = 2});
  const Case test{PipelineSchedule::gpipe, 2};
  Chain chain(test.skips);
  PipelineStep pipeline(mesh, chain.stages, options_of(test, chain, 2));
  auto batch = batch_of(test, 0, 0);
  (void)pipeline.run(batch, 0);
  if (communicator.rank() == 1) return;  // leaves; the other finds out by itself
  batch.input = [](int) { return noise_of({samples + 1, 3, 12, 12}, 1); };
  EXPECT_TRUE(says(message_of<Error>([&] { (void)pipeline.run(batch, 1); }),
                   {"rank 0 (stage 0) has 1 tensor: float32 [4, 8, 12, 12]",
                    "agreed with rank 1 on 1 tensor: float32 [3, 8, 12, 12]",
                    "activation of stage 0, micro-batch 0"}));
}

RANK_TEST(PipelineStep, CountsWhatARankWaits) {
  const DeviceMesh mesh(communicator, {.pipeline = communicator.size()});
  const Case test{PipelineSchedule::one_f_one_b, 4};
  Chain chain(test.skips);
  PipelineStep pipeline(mesh, chain.stages, options_of(test, chain, communicator.size()));
  EXPECT_EQ(pipeline.take_idle_time().fraction(), 0);
  (void)pipeline.run(batch_of(test, 0, 0), 0);
  const auto idle = pipeline.take_idle_time();
  EXPECT_GT(idle.seconds, 0);
  EXPECT_LT(idle.waiting_seconds, idle.seconds);
  if (communicator.rank() > 0) {
    EXPECT_GT(idle.waiting_seconds, 0);
  }
  EXPECT_EQ(pipeline.take_idle_time().seconds, 0);
}

RANK_TEST(PipelineStep, RefusesWhatIsNoPipeline) {
  const DeviceMesh mesh(communicator, {.pipeline = communicator.size()});
  const Case test;
  Chain chain(test.skips);
  const auto message = [&](const PipelineStepOptions& options) {
    return message_of<InputError>([&] { PipelineStep(mesh, chain.stages, options); });
  };
  auto options = options_of(test, chain, communicator.size());
  options.bounds.back() = 3;
  EXPECT_TRUE(says(message(options), {"don't cut 10 stages into parts"}));
  options = options_of(test, chain, communicator.size());
  options.bounds.insert(options.bounds.begin() + 1, 1);
  EXPECT_TRUE(says(message(options), {"parts for"}));
  options = options_of(test, chain, communicator.size());
  options.micro_batches = 0;
  EXPECT_TRUE(says(message(options), {"0 micro-batches"}));
  if (communicator.size() == 1) return;
  options = options_of(test, chain, communicator.size());
  options.micro_batches = 1 + communicator.rank();
  EXPECT_TRUE(says(message_of<Error>([&] { PipelineStep(mesh, chain.stages, options); }),
                   {"rank 0 has schedule gpipe, 1 micro-batches",
                    "rank 1 has schedule gpipe, 2 micro-batches"}));
}

// The other ranks don't wait for ever.
TEST(FailingPipeline, EndsTheJobWithTheStagesOwnMessage) {
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    const auto job = [&](const Communicator& communicator) {
      const DeviceMesh mesh(communicator, {.pipeline = 3});
      const Case test{schedule, 4};
      Chain chain(test.skips);
      int calls = 0;
      chain.stages[5].forward = [&calls](StagePayload payload) {
        if (++calls == 3) throw Error("the third micro-batch is too much");
        return payload;
      };
      PipelineStep pipeline(mesh, chain.stages, options_of(test, chain, 3));
      (void)pipeline.run(batch_of(test, 0, 0), 0);
    };
    EXPECT_TRUE(says(message_of<Error>([&] { run_as_threads(3, job); }),
                     {"the third micro-batch is too much"}));
  }
}

}  // namespace

}  // namespace kolo::testing
