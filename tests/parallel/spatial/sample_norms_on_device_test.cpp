// Norms of samples that ranks share, on a device: what they have on the host.
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/comm/threads.h"
#include "kolo/parallel/spatial_layers.h"
#include "parallel/spatial/spatial_cases.h"
#include "support/test_devices.h"

namespace kolo::testing {

namespace {

using Tensors = std::vector<torch::Tensor>;

Tensors sample_norms(const Communicator& communicator, const torch::Device& device) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size()}});
  SpatialGroupNorm group_norm(mesh, torch::nn::GroupNormOptions(2, 4));
  SpatialInstanceNorm instance_norm(
      mesh, torch::nn::InstanceNormOptions(4).affine(true).track_running_stats(true));
  group_norm->to(device);
  instance_norm->to(device);
  auto part = part_of(mesh, waves({2, 4, 5, 3}, .37, torch::kFloat));
  part.tensor = part.tensor.to(device).requires_grad_();
  const auto output = instance_norm(group_norm(part));
  output.tensor.pow(3).sum().backward();
  return {output.tensor, part.tensor.grad(), group_norm->weight.grad(), instance_norm->running_var};
}

TEST(SampleNormsOnADevice, AreThoseOfTheHost) {
  if (is_gpu_wanted()) GTEST_SKIP() << "ranks that are threads can't share a GPU in backward";
  const ThreadRanksOptions options{.devices = test_device_options(512)};
  const auto norms = [](const Communicator& communicator) {
    const auto on_host = sample_norms(communicator, torch::kCPU);
    const auto on_device = sample_norms(communicator, test_device(communicator.rank()));
    for (std::size_t i = 0; i < on_host.size(); ++i)
      EXPECT_LE(relative_difference(on_device[i].detach().to(torch::kCPU), on_host[i].detach()),
                1e-6)
          << "result " << i;
  };
  run_as_threads(2, norms, options);
}

}  // namespace

}  // namespace kolo::testing
