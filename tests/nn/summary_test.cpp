#include "kolo/nn/network.h"

#include <array>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "kolo/nn/models.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo {

// How GoogleTest shows a layer.
void PrintTo(const LayerSummary& layer, std::ostream* stream) {
  *stream << layer.name << ' ' << layer.kind << ' ' << ::testing::PrintToString(layer.output_shape)
          << ' ' << layer.parameters << ' ' << layer.flops;
}

namespace {

using ::testing::Field;

using Shape = std::vector<std::int64_t>;

::testing::Matcher<LayerSummary> layer(const std::string& name, const std::string& kind,
                                       const Shape& shape, std::int64_t parameters,
                                       std::int64_t flops) {
  return AllOf(Field(&LayerSummary::name, name), Field(&LayerSummary::kind, kind),
               Field(&LayerSummary::output_shape, shape),
               Field(&LayerSummary::parameters, parameters), Field(&LayerSummary::flops, flops));
}

ModelSummary summary_of(const std::string& model, const ModelOptions& options) {
  return summarize(*make_network(model, options), options.input_shape);
}

TEST(Summary, OfTheCnnAsCountedByHand) {
  const auto summary = summary_of("cnn", {.input_shape = {3, 32, 32}, .classes = 10});
  EXPECT_THAT(
      summary.layers,
      ElementsAre(layer("convolution1", "conv2d", {16, 32, 32}, 448, 2 * 27 * 16 * 32 * 32),
                  layer("", "relu", {16, 32, 32}, 0, 16 * 32 * 32),
                  layer("", "max_pool2d", {16, 16, 16}, 0, 4 * 16 * 16 * 16),
                  layer("convolution2", "conv2d", {32, 16, 16}, 4640, 2 * 144 * 32 * 16 * 16),
                  layer("", "relu", {32, 16, 16}, 0, 32 * 16 * 16),
                  layer("", "max_pool2d", {32, 8, 8}, 0, 4 * 32 * 8 * 8),
                  layer("convolution3", "conv2d", {64, 8, 8}, 18496, 2 * 288 * 64 * 8 * 8),
                  layer("", "relu", {64, 8, 8}, 0, 64 * 8 * 8),
                  layer("", "max_pool2d", {64, 4, 4}, 0, 4 * 64 * 4 * 4),
                  layer("", "flatten", {1024}, 0, 0),
                  layer("hidden", "linear", {128}, 131200, 2 * 1024 * 128),
                  layer("", "relu", {128}, 0, 128), layer("", "dropout", {128}, 0, 0),
                  layer("output", "linear", {10}, 1290, 2 * 128 * 10)));
  EXPECT_EQ(summary.parameters, 156074);
  EXPECT_EQ(summary.trainable_parameters, 156074);
  EXPECT_EQ(summary.buffer_elements, 0);
  EXPECT_EQ(summary.flops, 884736 + 16384 + 16384 + 2359296 + 8192 + 8192 + 2359296 + 4096 + 4096 +
                               262144 + 128 + 2560);
}

TEST(Summary, OfResNet50HasEveryLayerAndParameter) {
  const auto summary = summary_of("resnet50", {.input_shape = {3, 224, 224}, .classes = 1000});
  std::int64_t convolutions = 0, norms = 0, parameters = 0, multiplications = 0;
  for (const LayerSummary& each : summary.layers) {
    parameters += each.parameters;
    if (each.kind == "conv2d" || each.kind == "linear") multiplications += each.flops / 2;
    convolutions += each.kind == "conv2d" ? 1 : 0;
    norms += each.kind == "batch_norm" ? 1 : 0;
  }
  EXPECT_EQ(convolutions, 53);
  EXPECT_EQ(norms, 53);
  EXPECT_EQ(parameters, 25583592);
  EXPECT_EQ(summary.parameters, 25583592);
  EXPECT_EQ(summary.buffer_elements, 53120 + 53) << "two a channel, and a count of batches";
  // The paper's 3.8 billion (He et al., table 1), with the stride on the first convolution.
  EXPECT_NEAR(static_cast<double>(multiplications), 3.86e9, 0.01e9);
}

TEST(Summary, LeavesTheNetworkAndTheGeneratorAsTheyWere) {
  torch::manual_seed(4);
  const auto network = make_network("resnet_small", {.input_shape = {3, 8, 8}, .classes = 10});
  network->freeze(std::array{network->named_children()[0].key()});
  const auto modules = network->modules();
  std::vector<bool> modes;
  for (const auto& module : modules) modes.push_back(module->is_training());
  std::vector<torch::Tensor> buffers;
  for (const auto& buffer : network->buffers()) buffers.push_back(buffer.clone());
  const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();

  (void)summarize(*network, Shape{3, 8, 8});
  for (std::size_t i = 0; i < modules.size(); ++i)
    EXPECT_EQ(modules[i]->is_training(), modes[i]) << i;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    EXPECT_TRUE(torch::equal(network->buffers()[i], buffers[i])) << i;
  EXPECT_TRUE(torch::equal(at::detail::getDefaultCPUGenerator().get_state(), state));
}

// Layers of other kinds, some in a network that tells nothing of itself.
class Odd final : public Network {
 public:
  Odd() {
    scale_ = register_parameter("scale", torch::ones({4}));
    frozen_ = register_parameter("frozen", torch::ones({3}), /*requires_grad=*/false);
    unused_ = register_parameter("unused", torch::ones({7}));
    up_ = register_module(
        "up", torch::nn::ConvTranspose1d(torch::nn::ConvTranspose1dOptions(2, 3, 2).stride(2)));
  }
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor x = torch::avg_pool1d(input * scale_, 2);
    const torch::Tensor y = up_(x).transpose(1, 2);
    const torch::Tensor scaled = y * frozen_;
    return torch::matmul(scaled, y.transpose(1, 2)) * scale_;
  }

 private:
  torch::Tensor scale_, frozen_, unused_;
  torch::nn::ConvTranspose1d up_{nullptr};
};

TEST(Summary, OfANetworkOfOnesOwn) {
  Odd odd;
  const auto summary = summarize(odd, Shape{2, 4});
  EXPECT_THAT(summary.layers,
              ElementsAre(layer("", "mul", {2, 4}, 4, 8),                          //
                          layer("", "avg_pool1d", {2, 2}, 0, 2 * 4),               //
                          layer("up", "conv_transpose1d", {3, 4}, 15, 2 * 6 * 4),  //
                          layer("", "transpose", {4, 3}, 0, 0),                    //
                          layer("", "mul", {4, 3}, 3, 12),                         //
                          layer("", "transpose", {3, 4}, 0, 0),                    //
                          layer("", "matmul", {4, 4}, 0, 2 * 3 * 16),              //
                          layer("", "mul", {4, 4}, 0, 16)));
  EXPECT_EQ(summary.parameters, 4 + 3 + 7 + 15);
  EXPECT_EQ(summary.trainable_parameters, 4 + 7 + 15);
}

// One layer twice, of twelve weights and biases.
struct Tied final : Network {
  Tied() {
    register_module("first", linear);
    register_module("second", linear);
  }
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    return linear->forward(linear->forward(input));
  }
  torch::nn::Linear linear{3, 3};
};

TEST(Summary, CountsTiedWeightsOnce) {
  Tied tied;
  const auto summary = summarize(tied, Shape{3});
  EXPECT_EQ(summary.parameters, 12);
  EXPECT_EQ(summary.trainable_parameters, 12);
  ASSERT_EQ(summary.layers.size(), 2U);
  EXPECT_EQ(summary.layers[0].parameters, 12);
  EXPECT_EQ(summary.layers[1].parameters, 0);
  EXPECT_EQ(summary.layers[0].flops, summary.layers[1].flops);
}

TEST(Summary, AsATable) {
  const auto text = to_text(summary_of("mnist_net", {.input_shape = {1, 28, 28}, .classes = 10}));
  EXPECT_TRUE(says(text, {"layer  operation",
                          "conv1  conv2d           10 x 24 x 24         260           288 000\n",
                          "total                                     21 840",
                          "21 840 trainable parameters, 0 frozen, 0 values in buffers\n"}));
}

}  // namespace
}  // namespace kolo
