// Times convolutions of kolo's networks: LibTorch's own in its two layouts, oneDNN's primitives as
// kolo calls them, and products of matrices by tap, forward and backward, on one thread.
//
//   OMP_NUM_THREADS=1 convolution_bench [--batch 32] [--samples 15] [--network images]
//   [--ways "taps" "direct"]
#include <algorithm>
#include <functional>
#include <iostream>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "kernels/convolution_kernel.h"
#include "kolo/base/clock.h"
#include "kolo/base/machine.h"

namespace kolo {
namespace {

ConvolutionGeometry geometry_of(std::int64_t inputs, std::vector<std::int64_t> size,
                                std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
                                std::int64_t padding) {
  const auto all = [&](std::int64_t value) {
    return std::vector<std::int64_t>(size.size(), value);
  };
  return {.inputs = inputs,
          .outputs = outputs,
          .size = size,
          .kernel = all(kernel),
          .stride = all(stride),
          .padding = all(padding)};
}

struct Case {
  std::int64_t inputs, size, outputs, kernel, stride;
};

// Convolutions of so many dimensions; those of kernel 5, mnist_net's, have no padding.
std::vector<ConvolutionGeometry> convolutions_of(std::span<const Case> cases,
                                                 std::size_t dimensions) {
  std::vector<ConvolutionGeometry> found;
  for (const auto& [inputs, size, outputs, kernel, stride] : cases) {
    found.push_back(geometry_of(inputs, std::vector(dimensions, size), outputs, kernel, stride,
                                kernel == 5 ? 0 : (kernel - 1) / 2));
  }
  return found;
}

// Convolutions of resnet_small, from the input to the output, of cnn and of mnist_net.
std::vector<ConvolutionGeometry> image_convolutions() {
  constexpr Case cases[] = {
      {3, 32, 64, 3, 1},   {64, 32, 64, 1, 2},  {64, 16, 64, 1, 1},  {64, 16, 64, 3, 1},
      {64, 16, 128, 1, 2}, {128, 8, 128, 1, 1}, {128, 8, 128, 3, 1}, {128, 8, 256, 1, 2},
      {256, 4, 256, 1, 1}, {256, 4, 256, 3, 1}, {256, 4, 512, 1, 2}, {512, 2, 512, 1, 1},
      {512, 2, 512, 3, 1}, {3, 32, 16, 3, 1},   {16, 16, 32, 3, 1},  {32, 8, 64, 3, 1},
      {1, 28, 10, 5, 1},   {10, 12, 20, 5, 1},
  };
  return convolutions_of(cases, 2);
}

// Convolutions of resnet50 for images of 224 x 224, each once, without the stem.
std::vector<ConvolutionGeometry> resnet50_convolutions() {
  constexpr Case cases[] = {
      {64, 56, 64, 1, 1},     {64, 56, 64, 3, 1},    {64, 56, 256, 1, 1},   {256, 56, 64, 1, 1},
      {256, 56, 512, 1, 2},   {256, 56, 128, 1, 1},  {128, 56, 128, 3, 2},  {128, 28, 512, 1, 1},
      {512, 28, 128, 1, 1},   {128, 28, 128, 3, 1},  {512, 28, 1024, 1, 2}, {512, 28, 256, 1, 1},
      {256, 28, 256, 3, 2},   {256, 14, 1024, 1, 1}, {1024, 14, 256, 1, 1}, {256, 14, 256, 3, 1},
      {1024, 14, 2048, 1, 2}, {1024, 14, 512, 1, 1}, {512, 14, 512, 3, 2},  {512, 7, 2048, 1, 1},
      {2048, 7, 512, 1, 1},   {512, 7, 512, 3, 1},
  };
  return convolutions_of(cases, 2);
}

// Convolutions of unet3d at full scale, down and up. A transposed one stands as the convolution
// whose data gradient it is: its forward pass is the second time.
std::vector<ConvolutionGeometry> unet3d_convolutions() {
  constexpr Case cases[] = {{4, 64, 64, 4, 2},    {64, 32, 128, 4, 2},  {128, 16, 256, 4, 2},
                            {256, 8, 512, 4, 2},  {512, 4, 512, 4, 2},  {512, 2, 512, 4, 2},
                            {512, 2, 512, 4, 2},  {512, 4, 1024, 4, 2}, {256, 8, 1024, 4, 2},
                            {128, 16, 512, 4, 2}, {64, 32, 256, 4, 2},  {5, 64, 128, 4, 2}};
  return convolutions_of(cases, 3);
}

std::vector<std::int64_t> lengths(std::int64_t first, std::int64_t second,
                                  const std::vector<std::int64_t>& rest) {
  std::vector<std::int64_t> all = {first, second};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

at::MemoryFormat channels_last(const ConvolutionGeometry& geometry) {
  return geometry.size.size() == 3 ? at::MemoryFormat::ChannelsLast3d
                                   : at::MemoryFormat::ChannelsLast;
}

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
  const auto layout = channels_last(geometry);
  const auto x = torch::rand(lengths(geometry.batch, geometry.inputs, geometry.size))
                     .to(geometry.type)
                     .contiguous(layout);
  const auto y = torch::rand(lengths(geometry.batch, geometry.outputs, geometry.output_size()))
                     .to(geometry.type)
                     .contiguous(layout);
  const auto x_gradient = torch::empty_like(x);
  const auto plain = torch::rand(lengths(geometry.outputs, geometry.inputs, geometry.kernel));
  const auto weight = geometry.has_taps_first ? taps_first(plain) : plain;
  const auto bias = torch::rand({geometry.outputs});
  const auto weight_gradient = torch::empty_like(weight);
  return fmt::format(
      "{:.2f} + {:.2f} + {:.2f}",
      milliseconds(samples, [&] { kernel->forward(x, weight, bias, y); }),
      milliseconds(samples, [&] { kernel->backward_input(y, weight, x_gradient); }),
      milliseconds(samples, [&] { kernel->backward_weight(x, y, weight_gradient); }));
}

std::string time_libtorch(const ConvolutionGeometry& geometry, at::MemoryFormat layout,
                          std::int64_t samples) {
  auto x = torch::rand(lengths(geometry.batch, geometry.inputs, geometry.size))
               .contiguous(layout)
               .requires_grad_(geometry.inputs > 5);
  auto weight = torch::rand(lengths(geometry.outputs, geometry.inputs, geometry.kernel))
                    .contiguous(layout)
                    .requires_grad_();
  auto bias = torch::rand({geometry.outputs}).requires_grad_();
  const std::vector<std::int64_t> one(geometry.size.size(), 1), zero(geometry.size.size(), 0);
  torch::Tensor y;
  const double forward = milliseconds(samples, [&] {
    y = torch::convolution(x, weight, bias, geometry.stride, geometry.padding, one, false, zero, 1);
  });
  const auto gradient = torch::rand_like(y).contiguous(layout);
  std::vector<torch::Tensor> wanted = {weight, bias};
  if (x.requires_grad()) wanted.push_back(x);
  const double backward = milliseconds(samples, [&] {
    (void)torch::autograd::grad({y}, wanted, {gradient}, /*retain_graph=*/true);
  });
  return fmt::format("{:.2f} + {:.2f}", forward, backward);
}

// One way to compute a convolution, a column of the table.
struct Way {
  std::string name;
  std::function<std::string(const ConvolutionGeometry&, std::int64_t samples)> time;
};

using MakeKernel = std::unique_ptr<ConvolutionKernel> (*)(const ConvolutionGeometry&);

Way by_kernel(const std::string& name, MakeKernel make, torch::ScalarType type,
              bool has_taps_first = false) {
  return {name, [=](ConvolutionGeometry geometry, std::int64_t samples) {
            geometry.type = type;
            geometry.has_taps_first = has_taps_first;
            return time_kernel(make(geometry), geometry, samples);
          }};
}

// Kernel by columns; none for convolutions for which it would be hopelessly slow.
std::unique_ptr<ConvolutionKernel> columns_of(const ConvolutionGeometry& geometry) {
  return geometry.inputs <= 8 ? make_column_convolution(geometry) : nullptr;
}

std::vector<Way> all_ways() {
  return {{"LibTorch",
           [](const ConvolutionGeometry& geometry, std::int64_t samples) {
             return time_libtorch(geometry, at::MemoryFormat::Contiguous, samples);
           }},
          {"LibTorch, channels last",
           [](const ConvolutionGeometry& geometry, std::int64_t samples) {
             return time_libtorch(geometry, channels_last(geometry), samples);
           }},
          by_kernel("direct", make_direct_convolution, torch::kFloat),
          by_kernel("direct, bfloat16", make_direct_convolution, torch::kBFloat16),
          by_kernel("taps, contiguous weights", make_tap_convolution, torch::kFloat),
          by_kernel("taps", make_tap_convolution, torch::kFloat, true),
          by_kernel("taps, bfloat16", make_bfloat16_tap_convolution, torch::kBFloat16, true),
          by_kernel("tiles, bfloat16", make_tile_convolution, torch::kBFloat16, true),
          by_kernel("image_lanes", make_image_lane_convolution, torch::kFloat),
          by_kernel("winograd", make_winograd_convolution, torch::kFloat, true),
          by_kernel("winograd, bfloat16", make_winograd_convolution, torch::kBFloat16, true),
          by_kernel("columns", columns_of, torch::kFloat),
          by_kernel("columns, bfloat16", columns_of, torch::kBFloat16)};
}

void measure(std::vector<ConvolutionGeometry> geometries, const std::vector<Way>& ways,
             std::int64_t batch, std::int64_t samples) {
  std::cout << "milliseconds: forward + backward to the input + to the weight (LibTorch: both in "
               "one)\n\n| convolution |";
  for (const auto& way : ways) std::cout << fmt::format(" {} |", way.name);
  std::cout << "\n|---|";
  for (std::size_t i = 0; i < ways.size(); ++i) std::cout << "---:|";
  for (auto& geometry : geometries) {
    geometry.batch = batch;
    std::cout << fmt::format("\n| {}x{} to {}, {} stride {} |", geometry.inputs,
                             fmt::join(geometry.size, "x"), geometry.outputs,
                             fmt::join(geometry.kernel, "x"), geometry.stride[0]);
    for (const auto& way : ways)
      std::cout << fmt::format(" {} |", way.time(geometry, samples)) << std::flush;
  }
  std::cout << std::endl;
}

int run(int argc, char** argv) {
  std::int64_t batch = 32, samples = 15;
  std::string network = "images";
  std::vector<Way> ways;
  std::vector<std::string> names;
  for (const auto& way : all_ways()) names.push_back(way.name);
  std::vector<std::string> wanted = names;
  CLI::App program("Times convolutions of kolo's networks on one thread");
  program.add_option("--batch", batch)->check(CLI::PositiveNumber)->capture_default_str();
  program.add_option("--samples", samples)->check(CLI::PositiveNumber)->capture_default_str();
  program.add_option("--network", network, "Whose; images: those of the small image networks")
      ->check(CLI::IsMember({"images", "resnet50", "unet3d"}))
      ->capture_default_str();
  program.add_option("--ways", wanted, "Only these columns, each between quotation marks")
      ->check(CLI::IsMember(names));
  CLI11_PARSE(program, argc, argv);
  for (const auto& way : all_ways())
    if (std::ranges::find(wanted, way.name) != wanted.end()) ways.push_back(way);
  keep_freed_memory();
  at::set_num_threads(1);
  const auto geometries = network == "unet3d"     ? unet3d_convolutions()
                          : network == "resnet50" ? resnet50_convolutions()
                                                  : image_convolutions();
  measure(geometries, ways, batch, samples);
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
