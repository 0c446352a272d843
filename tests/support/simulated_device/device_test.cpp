// Promises of the simulated accelerator, on which other tests rely: host code can't reach its
// memory or mix its tensors with others, copies are as late as they may be, waits are counted, and
// a training has the CPU's bits.
#include "support/simulated_device/device.h"

#include <csignal>
#include <cstring>
#include <functional>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "support/process.h"

namespace kolo::testing::simulated {
namespace {

// Sums are cut by the number of threads, which is not the same in autograd's threads for devices as
// in the host's unless it is set before they start.
[[maybe_unused]] const bool one_thread = (torch::set_num_threads(1), true);

// How a process ends that does this, also under a sanitizer that has a handler of its own.
int end_of(const std::function<void()>& action) {
  const auto program = [&] {
    for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
    action();
    return 0;
  };
  return run_in_fork(program).exit_code;
}

TEST(SimulatedMemory, KillsHostCodeThatReadsOrWritesIt) {
  const Memory memory = make_memory(kAlignment);
  volatile auto* const bytes = reinterpret_cast<volatile unsigned char*>(memory.get());
  EXPECT_EQ(end_of([&] { (void)bytes[0]; }), 128 + SIGSEGV);
  EXPECT_EQ(end_of([&] { bytes[kAlignment - 1] = 1; }), 128 + SIGSEGV);
  auto* const view = reinterpret_cast<volatile unsigned char*>(host_view(memory.get()));
  EXPECT_EQ(end_of([&] { view[kAlignment - 1] = 1; }), 0);
  EXPECT_EQ(end_of([&] { view[kAlignment] = 1; }), 128 + SIGBUS) << "it ends there";
}

TEST(SimulatedMemory, KeepsWhatTheDeviceWritesUntilItIsReleased) {
  const std::size_t before = allocated_bytes(1);
  std::byte* const pointer = allocate(10'000, 1);
  EXPECT_EQ(allocated_bytes(1), before + 10'000);
  EXPECT_EQ(*host_view(pointer + 9'999), std::byte{0});
  std::memset(host_view(pointer), 7, 10'000);
  EXPECT_EQ(*host_view(pointer + 9'999), std::byte{7});
  release(pointer);
  EXPECT_EQ(allocated_bytes(1), before);
  EXPECT_EQ(device_of(pointer), -1);
  EXPECT_THROW(release(pointer), Error);
}

TEST(SimulatedMemory, KnowsItsDeviceAndRefusesOtherPointers) {
  const Memory first = make_memory(8, 0), second = make_memory(8, 1);
  EXPECT_EQ(device_of(first.get()), 0);
  EXPECT_EQ(device_of(second.get() + 7), 1);
  EXPECT_EQ(device_of(host_view(first.get())), -1);
  int host = 0;
  EXPECT_EQ(device_of(&host), -1);
  EXPECT_THROW((void)host_view(&host), Error);
  EXPECT_THROW(release(first.get() + 1), Error);
  EXPECT_THROW((void)allocate(8, kDevices), Error);
}

torch::TensorOptions on_device(int index = 0) {
  return torch::device(device(index));
}

TEST(SimulatedTensor, BeginsAsNaNOnItsDevice) {
  const auto tensor = torch::empty({100}, on_device(1));
  EXPECT_EQ(tensor.device(), device(1));
  EXPECT_EQ(device_of(tensor.data_ptr()), 1);
  EXPECT_TRUE(torch::isnan(tensor).all().item<bool>());
}

TEST(SimulatedTensor, IsRefusedBesideOthers) {
  auto tensor = torch::ones({2}, on_device());
  EXPECT_ANY_THROW((void)(tensor + torch::ones({2})));
  EXPECT_ANY_THROW((void)(tensor + torch::ones({2}, on_device(1))));
  EXPECT_ANY_THROW((void)torch::dot(tensor, torch::ones({2})));
  EXPECT_ANY_THROW((void)torch::dot(tensor, torch::ones({2}, on_device(1))));
  auto scalar = torch::ones({});
  EXPECT_ANY_THROW(scalar.add_(tensor[0]));
  EXPECT_TRUE(torch::equal((tensor + scalar).cpu(), torch::full({2}, 2.F)));
  EXPECT_ANY_THROW((void)torch::empty({2}, on_device(kDevices)));
}

TEST(SimulatedTensor, SharesMemoryWithItsViewsAndKeepsChannelsLast) {
  auto tensor = torch::zeros({4, 6}, on_device());
  tensor.narrow(1, 2, 3).view({4, 3, 1}).select(0, 1).squeeze(1).fill_(1);
  tensor.as_strided({2}, {6}, 0).add_(2);
  tensor.reshape({24}).index({torch::indexing::Slice(20)}).mul_(3).add_(4);
  EXPECT_EQ(tensor.sum().item<float>(), 3 + 4 + 16);
  const auto host = torch::randn({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto there = host.to(device(1)).relu();
  EXPECT_TRUE(there.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::equal(there.cpu(), host.relu()));
}

TEST(SimulatedDevice, CountsWhatTheHostWaitsFor) {
  const auto waits_of = [](const auto& body) {
    const auto before = host_waits();
    body();
    return host_waits() - before;
  };
  const auto there = torch::ones({3}).to(device());
  EXPECT_EQ(waits_of([&] { (void)there.sum().item<float>(); }), 1);
  EXPECT_EQ(waits_of([&] { (void)there.cpu(); }), 1);
  EXPECT_EQ(waits_of([&] { (void)there.nonzero(); }), 1);
  EXPECT_EQ(waits_of([&] { (void)torch::ones({3}).to(device()); }), 1);
  EXPECT_EQ(waits_of([&] {
              torch::empty({3}).copy_(there, /*non_blocking=*/true);
              there.clone().add_(there.sum());
            }),
            0);
}

TEST(SimulatedDevice, CopiesAsLateAsItMay) {
  const c10::impl::VirtualGuardImpl guard(kDeviceType);
  const auto stream = guard.getStreamFromGlobalPool(device(0));
  EXPECT_NE(stream, guard.getDefaultStream(device(0)));
  auto from = torch::ones({4});
  const auto copy = torch::empty({4}, on_device(0));
  c10::Event event(kDeviceType);
  {
    const c10::StreamGuard here(stream);
    copy.copy_(from, /*non_blocking=*/true);
    event.record(stream);
  }
  EXPECT_TRUE(torch::isnan(copy.cpu()).all().item<bool>());  // nobody has waited
  from.fill_(2);
  event.block(guard.getDefaultStream(device(0)));
  EXPECT_EQ(copy.cpu().sum().item<float>(), 8);
  EXPECT_TRUE(event.query());
}

namespace nn = torch::nn;

// Some steps of SGD; the losses, and what the network has then.
std::vector<torch::Tensor> train(const torch::Device& place, torch::MemoryFormat format) {
  torch::manual_seed(1);
  nn::Sequential network(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)), nn::BatchNorm2d(8),
                         nn::ReLU(), nn::MaxPool2d(2),
                         nn::Conv2d(nn::Conv2dOptions(8, 8, 3).groups(2).bias(false)),
                         nn::Flatten(), nn::Dropout(.2), nn::Linear(8 * 2 * 2, 5));
  const auto images = torch::randn({6, 3, 8, 8}).contiguous(format).to(place);
  const auto labels = torch::tensor({0, 1, 2, 3, 4, 0}).to(place);
  network->to(place);
  for (auto& parameter : network->parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.data().contiguous(format));
  torch::optim::SGD optimizer(network->parameters(),
                              torch::optim::SGDOptions(.1).momentum(.9).weight_decay(1e-3));
  std::vector<torch::Tensor> found;
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(step));  // for dropout
    optimizer.zero_grad();
    const auto loss = nn::functional::cross_entropy(network->forward(images), labels);
    loss.backward();
    optimizer.step();
    found.push_back(loss.detach());
  }
  for (const auto& parameter : network->parameters()) {
    found.push_back(parameter.detach());
    found.push_back(parameter.grad());
  }
  for (const auto& buffer : network->buffers()) found.push_back(buffer);
  return found;
}

TEST(SimulatedDevice, TrainsToTheHostsBits) {
  for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
    const auto on_device = train(device(1), format), on_host = train(torch::kCPU, format);
    for (std::size_t i = 0; i < on_host.size(); ++i) {
      EXPECT_EQ(on_device[i].device(), device(1)) << i;
      EXPECT_TRUE(torch::equal(on_device[i].cpu(), on_host[i])) << i;
    }
  }
}

}  // namespace
}  // namespace kolo::testing::simulated
