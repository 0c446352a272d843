#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "kolo/parallel.h"
#include "parallel_transformer.h"
#include "support/rank_test.h"
#include "tensor_cases.h"

// The examples' networks, trained on meshes of data x tensor ranks and, of torch::nn's layers, on
// one rank.
namespace kolo::testing {

namespace {

constexpr int training_steps = 6;
constexpr std::int64_t length = 8, batch = 8;
constexpr double limit = .5;  // of the gradients' norm: below that of some steps

TransformerOptions small_options(bool sequence_parts) {
  return {.words = 16, .features = 12, .heads = 4, .sequence_parts = sequence_parts};
}

struct PlainMlpImpl : torch::nn::Module {
  explicit PlainMlpImpl(std::int64_t features)
      : up(register_module("up", torch::nn::Linear(features, 4 * features))),
        down(register_module("down", torch::nn::Linear(4 * features, features))) {}
  torch::Tensor forward(const torch::Tensor& input) { return down(torch::gelu(up(input))); }
  torch::nn::Linear up, down;
};
TORCH_MODULE(PlainMlp);

struct PlainBlockImpl : torch::nn::Module {
  PlainBlockImpl(std::int64_t features, std::int64_t heads)
      : norm1(register_module("norm1", torch::nn::LayerNorm(std::vector{features}))),
        attention(register_module("attention", torch::nn::MultiheadAttention(features, heads))),
        norm2(register_module("norm2", torch::nn::LayerNorm(std::vector{features}))),
        mlp(register_module("mlp", PlainMlp(features))) {}
  torch::Tensor forward(const torch::Tensor& input) {
    const auto normed = norm1(input);
    const auto places = input.size(0);
    const auto mask =
        torch::full({places, places}, -INFINITY, torch::TensorOptions(input.dtype())).triu(1);
    const auto attended =
        input + std::get<0>(attention->forward(normed, normed, normed, {}, true, mask));
    return attended + mlp(norm2(attended));
  }
  torch::nn::LayerNorm norm1;
  torch::nn::MultiheadAttention attention;
  torch::nn::LayerNorm norm2;
  PlainMlp mlp;
};
TORCH_MODULE(PlainBlock);

struct PlainModel : torch::nn::Module {
  explicit PlainModel(const TransformerOptions& options)
      : words(register_module("words", torch::nn::Embedding(options.words, options.features))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        norm(register_module("norm", torch::nn::LayerNorm(std::vector{options.features}))),
        logits(register_module(
            "logits", torch::nn::Linear(
                          torch::nn::LinearOptions(options.features, options.words).bias(false)))) {
    for (std::int64_t i = 0; i < options.layers; ++i)
      blocks->push_back(PlainBlock(options.features, options.heads));
    set_numbers(*this);
  }
  torch::Tensor forward(const torch::Tensor& input) {
    auto features = words(input);
    for (const auto& block : *blocks) features = block->as<PlainBlock>()->forward(features);
    return logits(norm(features));
  }
  torch::nn::Embedding words;
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear logits;
};

std::string name_in_model(std::string name) {
  for (const std::string what : {"in_proj_weight", "in_proj_bias"}) {
    const auto place = name.find(what);
    if (place != std::string::npos) name[place + 7] = '.';
  }
  return name;
}

// Words of a step, [length + 1, count].
torch::Tensor words_of(int step, std::int64_t first, std::int64_t count,
                       const TransformerOptions& options) {
  const auto index = torch::arange((length + 1) * batch, torch::kLong).view({length + 1, batch});
  return ((index + step) * (index + 3)).remainder(options.words).narrow(1, first, count);
}

struct Trained {
  std::vector<double> losses, norms;
  WholeParameters parameters;
};

Trained train_alone(const TransformerOptions& options, torch::ScalarType type) {
  PlainModel model(options);
  model.to(type);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(.1).momentum(.9));
  Trained trained;
  for (int step = 1; step <= training_steps; ++step) {
    const auto words = words_of(step, 0, batch, options);
    const auto logits = model.forward(words.narrow(0, 0, length));
    const auto loss = torch::nn::functional::cross_entropy(
        logits.reshape({-1, options.words}), words.narrow(0, 1, length).reshape({-1}));
    optimizer.zero_grad();
    loss.backward();
    trained.norms.push_back(torch::nn::utils::clip_grad_norm_(model.parameters(), limit));
    optimizer.step();
    trained.losses.push_back(loss.item<double>());
  }
  trained.parameters = values_of(model, name_in_model);
  return trained;
}

Trained train_on(const DeviceMesh& mesh, const TransformerOptions& options,
                 torch::ScalarType type) {
  const auto& group = mesh.axis(MeshAxis::tensor);
  const auto& replicas = mesh.replicas();
  ParallelLanguageModel model(group, options);
  set_whole_parameters(group, *model, values_of(PlainModel(options), name_in_model));
  model->to(type);
  const auto arena = std::make_shared<ParameterArena>(replicas, *model, BucketLimits{});
  GradientReducer reducer(replicas, arena);
  ArenaOptimizer optimizer(arena, make_sgd({.momentum = .9}));
  const auto share = batch / replicas.size();
  Trained trained;
  for (int step = 1; step <= training_steps; ++step) {
    const auto words = words_of(step, replicas.rank() * share, share, options);
    const auto logits = model->forward(words.narrow(0, 0, length));
    const auto loss = vocabulary_cross_entropy(group, logits, words.narrow(0, 1, length));
    loss.backward();
    reducer.finish();
    sum_sequence_gradients(group, *model);
    trained.norms.push_back(clip_gradient_norm(mesh, *model, limit));
    for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket)
      optimizer.update(bucket, .1, step);
    optimizer.finish();
    reducer.clear_gradients();
    trained.losses.push_back(average(replicas, loss.item<double>()));
  }
  trained.parameters = whole_parameters(group, *model);
  return trained;
}

void expect_same(const Trained& trained, const Trained& expected, double tolerance,
                 const std::string& what) {
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(trained.losses[step], expected.losses[step], tolerance * expected.losses[step])
        << what << ", loss of step " << step;
    EXPECT_NEAR(trained.norms[step], expected.norms[step], tolerance * expected.norms[step])
        << what << ", norm of step " << step;
  }
  ASSERT_EQ(trained.parameters.size(), expected.parameters.size()) << what;
  for (const auto& item : expected.parameters)
    expect_close(trained.parameters[item.key()], item.value(), tolerance, what + ", " + item.key());
}

RANK_TEST(Transformer, TrainsAsOneOfTorchsLayersOnOneRank) {
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    const auto expected = train_alone(small_options(false), type);
    EXPECT_LT(expected.losses.back(), expected.losses.front());
    for (std::int64_t tensor = 1; tensor <= communicator.size(); tensor *= 2) {
      const DeviceMesh mesh(communicator, {.tensor = tensor});
      for (const bool sequence_parts : {false, true}) {
        expect_same(
            train_on(mesh, small_options(sequence_parts), type), expected, tolerance_of(type),
            fmt::format("{}{}, {}", mesh.shape().describe(),
                        sequence_parts ? " with parts of sequences" : "", torch::toString(type)));
      }
    }
  }
}

RANK_TEST(Mlp, TrainsAsOneOfTorchsLayersOnOneRank) {
  const auto mesh = tensor_mesh(communicator);
  const auto& group = mesh.axis(MeshAxis::tensor);
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    const TransformerOptions options{.features = 12};
    PlainMlp plain(options.features);
    set_numbers(*plain);
    plain->to(type);
    ParallelMlp mlp(group, options);
    mlp->to(type);
    set_whole_parameters(group, *mlp, values_of(*plain, same_name));
    torch::optim::Adam plain_optimizer(plain->parameters(), torch::optim::AdamOptions(1e-2));
    torch::optim::Adam optimizer(mlp->parameters(), torch::optim::AdamOptions(1e-2));
    const auto train = [&](auto& network, torch::optim::Optimizer& steps, int step) {
      const auto input = noise({16, options.features}, step).to(type);
      const auto loss = torch::mse_loss(network(input), input.sin());
      steps.zero_grad();
      loss.backward();
      steps.step();
      return loss.template item<double>();
    };
    for (int step = 1; step <= training_steps; ++step) {
      const double expected = train(plain, plain_optimizer, step);
      EXPECT_NEAR(train(mlp, optimizer, step), expected, tolerance_of(type) * expected);
    }
    const auto whole = whole_parameters(group, *mlp);
    for (const auto& item : plain->named_parameters())
      expect_close(whole[item.key()], item.value(), 10 * tolerance_of(type), item.key());
  }
}

}  // namespace

}  // namespace kolo::testing
