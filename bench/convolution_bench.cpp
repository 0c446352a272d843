// Times convolutions of kolo's networks: LibTorch's own in its two layouts, oneDNN's primitives as
// kolo calls them, and products of matrices by position, forward and backward, on one thread.
//
//   OMP_NUM_THREADS=1 convolution_bench [--batch 32] [--samples 15]
#include <algorithm>
#include <functional>
#include <iostream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "kolo/base/allocator.h"
#include "kolo/base/clock.h"
#include "nn/kernels/convolution_kernel.h"

namespace kolo {
namespace {

struct Case {
  std::int64_t inputs, size, outputs, kernel, stride;
};

// Those of resnet_small, from the input to the output, of cnn and of mnist_net.
constexpr Case cases[] = {
    {3, 32, 64, 3, 1},   {64, 32, 64, 1, 2},  {64, 16, 64, 1, 1},  {64, 16, 64, 3, 1},
    {64, 16, 128, 1, 2}, {128, 8, 128, 1, 1}, {128, 8, 128, 3, 1}, {128, 8, 256, 1, 2},
    {256, 4, 256, 1, 1}, {256, 4, 256, 3, 1}, {256, 4, 512, 1, 2}, {512, 2, 512, 1, 1},
    {512, 2, 512, 3, 1}, {3, 32, 16, 3, 1},   {16, 16, 32, 3, 1},  {32, 8, 64, 3, 1},
    {1, 28, 10, 5, 1},   {10, 12, 20, 5, 1},
};

double milliseconds(std::int64_t samples, const std::function<void()>& work) {
  work();
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < samples; ++i) {
    const Stopwatch watch;
    work();
    seconds.push_back(watch.seconds());
  }
  std::nth_element(seconds.begin(), seconds.begin() + samples / 2, seconds.end());
  return 1e3 * seconds[static_cast<std::size_t>(samples / 2)];
}

std::string time_kernel(std::unique_ptr<ConvolutionKernel> kernel,
                        const ConvolutionGeometry& geometry, std::int64_t samples) {
  if (!kernel) return "-";
  const auto layout = torch::TensorOptions().memory_format(at::MemoryFormat::ChannelsLast);
  const auto size = geometry.output_size();
  const auto x = torch::rand({geometry.batch, geometry.inputs, geometry.size[0], geometry.size[1]})
                     .contiguous(at::MemoryFormat::ChannelsLast);
  const auto y = torch::empty({geometry.batch, geometry.outputs, size[0], size[1]}, layout);
  const auto x_gradient = torch::empty_like(x);
  const auto weight =
      torch::rand({geometry.outputs, geometry.inputs, geometry.kernel[0], geometry.kernel[1]});
  const auto bias = torch::rand({geometry.outputs});
  const auto weight_gradient = torch::empty_like(weight), bias_gradient = torch::empty_like(bias);
  return fmt::format("{:.2f} + {:.2f} + {:.2f}",
                     milliseconds(samples, [&] { kernel->forward(x, weight, bias, y); }),
                     milliseconds(samples, [&] { kernel->backward_input(y, weight, x_gradient); }),
                     milliseconds(samples, [&] {
                       kernel->backward_weight(x, y, weight_gradient, bias_gradient);
                     }));
}

std::string time_libtorch(const ConvolutionGeometry& geometry, at::MemoryFormat layout,
                          std::int64_t samples) {
  auto x = torch::rand({geometry.batch, geometry.inputs, geometry.size[0], geometry.size[1]})
               .contiguous(layout)
               .requires_grad_(geometry.inputs > 3);
  torch::nn::Conv2d convolution(
      torch::nn::Conv2dOptions(geometry.inputs, geometry.outputs, geometry.kernel[0])
          .stride(geometry.stride[0])
          .padding(geometry.padding[0]));
  torch::Tensor y;
  const double forward = milliseconds(samples, [&] { y = convolution(x); });
  const auto gradient = torch::rand_like(y).contiguous(layout);
  auto wanted = convolution->parameters();
  if (x.requires_grad()) wanted.push_back(x);
  const double backward = milliseconds(samples, [&] {
    (void)torch::autograd::grad({y}, wanted, {gradient}, /*retain_graph=*/true);
  });
  return fmt::format("{:.2f} + {:.2f}", forward, backward);
}

void measure(std::int64_t batch, std::int64_t samples) {
  std::cout << "milliseconds: forward + backward to the input + to the weight (LibTorch: both in "
               "one)\n\n"
               "| convolution | LibTorch | LibTorch, channels last | oneDNN | by position |\n"
               "|---|---:|---:|---:|---:|\n";
  for (const auto& each : cases) {
    const std::int64_t padding = each.kernel == 5 ? 0 : each.kernel / 2;
    const ConvolutionGeometry geometry{.batch = batch,
                                       .inputs = each.inputs,
                                       .outputs = each.outputs,
                                       .size = {each.size, each.size},
                                       .kernel = {each.kernel, each.kernel},
                                       .stride = {each.stride, each.stride},
                                       .padding = {padding, padding}};
    std::cout << fmt::format("| {}x{}x{} to {}, {}x{} stride {} | {} | {} | {} | {} |", each.inputs,
                             each.size, each.size, each.outputs, each.kernel, each.kernel,
                             each.stride,
                             time_libtorch(geometry, at::MemoryFormat::Contiguous, samples),
                             time_libtorch(geometry, at::MemoryFormat::ChannelsLast, samples),
                             time_kernel(make_direct_convolution(geometry), geometry, samples),
                             time_kernel(make_position_convolution(geometry), geometry, samples))
              << std::endl;
  }
}

int run(int argc, char** argv) {
  std::int64_t batch = 32, samples = 15;
  CLI::App program("Times convolutions of kolo's networks on one thread");
  program.add_option("--batch", batch)->check(CLI::PositiveNumber)->capture_default_str();
  program.add_option("--samples", samples)->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(program, argc, argv);
  keep_freed_memory();
  at::set_num_threads(1);
  measure(batch, samples);
  return 0;
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  try {
    return kolo::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "convolution_bench: " << error.what() << '\n';
    return 1;
  }
}
