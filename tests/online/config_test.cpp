#include <gtest/gtest.h>

#include "kolo/base/error.h"
#include "kolo/online/online_config.h"
#include "support/errors.h"

namespace kolo {
namespace {

OnlineConfig loaded(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return load_online_config(text + "\n", overrides);
}

const std::string mlp = "model: {name: mlp, inputs: [2], outputs: [1]}\noptimizer: {name: adam}\n";

TEST(OnlineConfig, IsReadFromTextAndOverrides) {
  const auto config = loaded(mlp +
                             "training: {samples: cells, every: 10, n_steps: 2, loss: l1}\n"
                             "reservoir: {policy: keep_unseen, capacity: 2 GB}",
                             {"training.n_steps=5", "optimizer.lr=0.25"});
  EXPECT_EQ(config.training.samples, SampleKind::cells);
  EXPECT_EQ(config.training.every, 10);
  EXPECT_EQ(config.training.n_steps, 5);
  EXPECT_EQ(config.training.loss, "l1");
  EXPECT_EQ(config.reservoir.policy, ReservoirPolicy::keep_unseen);
  EXPECT_EQ(config.optimizer.lr, .25);
}

struct Refused {
  std::string text, message;
};

class OnlineConfigMistakes : public ::testing::TestWithParam<Refused> {};

TEST_P(OnlineConfigMistakes, AreNamed) {
  EXPECT_EQ(testing::message_of<InputError>([] { (void)loaded(GetParam().text); }),
            GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, OnlineConfigMistakes,
    ::testing::Values(
        Refused{mlp + "trainin: {every: 1}",
                "configuration:3: unknown key \"trainin\"; did you mean \"training\"? Known: "
                "output_dir, "
                "seed, model, optimizer, training, reservoir, normalization, checkpoint"},
        Refused{"model: {name: mlp, outputs: [1]}\noptimizer: {name: sgd}",
                "configuration:1: model.inputs: model mlp is made for one shape of inputs: the "
                "lengths of a sample without the batch, [2] for two features"},
        Refused{
            "model: {name: mlp, inputs: [2], outputs: [1]}\noptimizer: {name: schedule_free_sgd}",
            "configuration:2: optimizer.name: schedule_free_sgd trains other parameters than "
            "those to infer with, and networks inside simulations have one kind; use another "
            "optimizer"},
        Refused{mlp + "training: {samples: rows}",
                "configuration:3: training.samples: expected one of batch, fields, cells, columns, "
                "whole, got \"rows\""},
        Refused{mlp + "reservoir: {capacity: lots}",
                "configuration:3: reservoir.capacity: expected a size such as 512 MiB or 2 GB, got "
                "\"lots\""},
        Refused{mlp + "training: {apart: true}",
                "configuration:3: training.apart: all ranks train, so none would compute; give "
                "training.ranks, or a training.rank_stride of 2 or more"},
        Refused{mlp + "training: {lr_decay: cosine}",
                "configuration:3: training.lr_decay: cosine reaches its end with the last step; "
                "give training.max_steps"},
        Refused{mlp + "training: {loss: mse, loss_file: loss.pt}",
                "configuration:3: training.loss_file: there is a training.loss as well; give one "
                "of the two"},
        Refused{mlp + "training: {samples: whole}",
                "configuration:3: training.batch_size: with training.samples whole a sample is a "
                "batch: give 1"}));

TEST(BytesFromText, KnowsUnits) {
  EXPECT_EQ(bytes_from_text("2 GB"), 2'000'000'000U);
  EXPECT_EQ(bytes_from_text("512MiB"), 512U << 20);
  EXPECT_EQ(bytes_from_text("1e6"), 1'000'000U);
  EXPECT_EQ(bytes_from_text("1.5k"), 1500U);
  for (const auto* const wrong : {"", "GB", "-1 GB", "2 XB", "0", "1 GBB", "nan"})
    EXPECT_EQ(bytes_from_text(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace kolo
