#include <atomic>
#include <cmath>
#include <csignal>
#include <sstream>
#include <thread>
#include <vector>

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "support/process.h"
#include "support/simulated_device/device.h"

namespace kolo::testing::simulated {
namespace {

torch::TensorOptions on_device(int index = 0) {
  return torch::device(device(index));
}

// Bit for bit, in values, sizes and strides.
void expect_same(const torch::Tensor& on_device, const torch::Tensor& on_host) {
  ASSERT_EQ(on_device.device().type(), kDeviceType);
  EXPECT_EQ(on_device.sizes(), on_host.sizes());
  EXPECT_EQ(on_device.strides(), on_host.strides());
  EXPECT_TRUE(torch::equal(on_device.cpu(), on_host)) << on_device.cpu() << '\n' << on_host;
}

TEST(SimulatedTensor, KillsHostCodeThatFollowsItsPointer) {
  const auto tensor = torch::ones({4}, on_device());
  const auto program = [&] {
    std::signal(SIGSEGV, SIG_DFL);
    return static_cast<int>(*static_cast<volatile float*>(tensor.data_ptr()));
  };
  EXPECT_EQ(run_in_fork(program).exit_code, 128 + SIGSEGV);
  EXPECT_EQ(host_tensor(tensor).data_ptr<float>()[3], 1);
}

TEST(SimulatedTensor, IsMadeOnItsDevice) {
  for (const int index : {0, 1}) {
    const auto tensor = torch::zeros({2, 3}, on_device(index));
    EXPECT_EQ(tensor.device(), device(index));
    EXPECT_EQ(device_of(tensor.data_ptr()), index);
    EXPECT_FALSE(tensor.is_cpu());
  }
  const c10::DeviceGuard guard(device(1));
  EXPECT_EQ(torch::empty({1}, torch::device(kDeviceType)).device(), device(1));
}

TEST(SimulatedTensor, BeginsAsNaN) {
  EXPECT_TRUE(torch::isnan(torch::empty({100}, on_device())).all().item<bool>());
}

TEST(SimulatedTensor, IsCopied) {
  const auto host = torch::randn({3, 5});
  const auto first = host.to(device(0));
  const auto second = first.to(device(1));
  EXPECT_EQ(second.device(), device(1));
  expect_same(first, host);
  expect_same(second, host);
  expect_same(first.clone(), host);
  EXPECT_NE(first.clone().data_ptr(), first.data_ptr());
  expect_same(first.t().contiguous(), host.t().contiguous());
  expect_same(first.to(torch::kFloat64), host.to(torch::kFloat64));
  auto into = torch::zeros({5, 3});
  into.t().copy_(second, /*non_blocking=*/true);
  EXPECT_TRUE(torch::equal(into.t(), host));
  auto row = torch::zeros({3, 5}, on_device());
  row.copy_(host[0]);
  expect_same(row, host[0].expand({3, 5}).contiguous());
}

TEST(SimulatedTensor, GivesItsValueToTheHost) {
  const auto tensor = torch::arange(6, on_device()).to(torch::kFloat32);
  EXPECT_EQ(tensor.sum().item<float>(), 15);
  EXPECT_EQ(tensor[2].item<float>(), 2);
  EXPECT_TRUE(torch::equal(tensor, tensor.clone()));
}

TEST(SimulatedTensor, SharesMemoryWithItsViews) {
  auto tensor = torch::zeros({4, 6}, on_device());
  auto part = tensor.narrow(1, 2, 3).view({4, 3, 1}).select(0, 1).squeeze(1);
  EXPECT_EQ(static_cast<std::byte*>(part.data_ptr()) - static_cast<std::byte*>(tensor.data_ptr()),
            8 * sizeof(float));
  part.fill_(1);
  tensor.as_strided({2}, {6}, 0).add_(2);
  tensor.reshape({24}).index({torch::indexing::Slice(20)}).mul_(3).add_(4);
  const auto host = tensor.cpu();
  EXPECT_EQ(host.sum().item<float>(), 3 + 4 + 16);
  EXPECT_EQ(host[1][2].item<float>(), 1);
  EXPECT_EQ(host[1][0].item<float>(), 2);
  EXPECT_TRUE(tensor.is_alias_of(part));
}

TEST(SimulatedTensor, ComputesAsTheHostDoes) {
  const auto a = torch::randn({3, 4}), b = torch::randn({3, 4});
  const auto x = a.to(device()), y = b.to(device());
  expect_same(x + y * 2, a + b * 2);
  expect_same(x.matmul(y.t()), a.matmul(b.t()));
  expect_same(torch::cat({x, y}), torch::cat({a, b}));
  expect_same(x.index({torch::tensor({2, 0})}), a.index({torch::tensor({2, 0})}));
  expect_same(torch::where(x > 0, x, y), torch::where(a > 0, a, b));
  expect_same(std::get<1>(x.max(1)), std::get<1>(a.max(1)));
  expect_same(torch::stack(x.unbind(1)), torch::stack(a.unbind(1)));
  auto out = torch::empty({0}, on_device());
  torch::add_out(out, x, y);
  expect_same(out, a + b);
  auto order = torch::empty({0}, on_device().dtype(torch::kInt64));
  torch::sort_out(out, order, x, 1);
  expect_same(order, std::get<1>(a.sort(1)));
}

TEST(SimulatedTensor, IsResizedAndSet) {
  auto tensor = torch::arange(4, on_device());
  tensor.resize_({2, 8});
  EXPECT_EQ(tensor.device(), device());
  EXPECT_EQ(tensor.flatten()[3].item<int>(), 3);
  auto other = torch::empty({0}, tensor.options());
  other.set_(tensor);
  EXPECT_EQ(other.data_ptr(), tensor.data_ptr());
  other.set_(tensor.storage(), 1, {3}, {1});
  expect_same(other, torch::tensor({1, 2, 3}));
  other.set_(tensor.storage());
  EXPECT_EQ(other.numel(), 16);
}

TEST(SimulatedTensor, KeepsChannelsLast) {
  const auto host = torch::randn({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto tensor = host.to(device());
  EXPECT_TRUE(tensor.is_contiguous(torch::MemoryFormat::ChannelsLast));
  expect_same(tensor, host);
  expect_same(tensor.relu(), host.relu());
  expect_same(tensor.contiguous(), host.contiguous());
  expect_same(tensor.contiguous().to(torch::MemoryFormat::ChannelsLast), host);
}

TEST(SimulatedTensor, IsRefusedBesideOthers) {
  auto tensor = torch::ones({2}, on_device());
  EXPECT_ANY_THROW((void)(tensor + torch::ones({2})));
  EXPECT_ANY_THROW((void)(tensor + torch::ones({2}, on_device(1))));
  EXPECT_ANY_THROW((void)torch::dot(tensor, torch::ones({2})));
  EXPECT_ANY_THROW((void)torch::dot(tensor, torch::ones({2}, on_device(1))));
  auto scalar = torch::ones({});
  EXPECT_ANY_THROW(scalar.add_(tensor[0]));
  expect_same(tensor + scalar, torch::full({2}, 2.F));
  EXPECT_ANY_THROW((void)torch::empty({2}, on_device(kDevices)));
}

TEST(SimulatedTensor, DrawsTheHostsRandomNumbers) {
  torch::manual_seed(3);
  const auto host = torch::randn({20});
  torch::manual_seed(3);
  expect_same(torch::randn({20}, on_device()), host);
}

TEST(SimulatedTensor, IsSavedAndLoadedByWayOfTheHost) {
  const auto tensor = torch::randn({3, 2}, on_device());
  std::stringstream file;
  torch::save(tensor.cpu(), file);
  torch::Tensor loaded;
  torch::load(loaded, file);
  expect_same(loaded.to(device()), tensor.cpu());
}

TEST(SimulatedTensor, GivesItsMemoryBack) {
  const std::size_t before = allocated_bytes(1);
  {
    const auto tensor = torch::ones({1'000}, on_device(1));
    EXPECT_EQ(allocated_bytes(1), before + 4'000);
    const auto view = tensor.view({10, 100});
    EXPECT_EQ(allocated_bytes(1), before + 4'000);
  }
  EXPECT_EQ(allocated_bytes(1), before);
}

TEST(SimulatedDevice, HasStreamsAndEvents) {
  const c10::impl::VirtualGuardImpl guard(kDeviceType);
  EXPECT_EQ(guard.deviceCount(), kDevices);
  const auto standard = guard.getStream(device(1));
  EXPECT_EQ(standard, guard.getDefaultStream(device(1)));
  const auto other = guard.getStreamFromGlobalPool(device(1));
  EXPECT_NE(other, standard);
  EXPECT_EQ(guard.exchangeStream(other), standard);
  EXPECT_EQ(guard.getStream(device(1)), other);
  EXPECT_EQ(guard.getStream(device(0)), guard.getDefaultStream(device(0)));
  guard.exchangeStream(standard);
  c10::Event event(kDeviceType);
  event.record(other);
  event.block(standard);
  EXPECT_TRUE(event.query());
}

TEST(SimulatedDevice, CopiesAsLateAsItMay) {
  const c10::impl::VirtualGuardImpl guard(kDeviceType);
  const auto stream = guard.getStreamFromGlobalPool(device(0));
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

TEST(SimulatedDevice, BelongsToEachThread) {
  const c10::DeviceGuard guard(device(1));
  std::thread([] {
    const c10::impl::VirtualGuardImpl current(kDeviceType);
    EXPECT_EQ(current.getDevice(), device(0));
  }).join();
  const c10::impl::VirtualGuardImpl current(kDeviceType);
  EXPECT_EQ(current.getDevice(), device(1));
}

TEST(SimulatedDevice, ServesSeveralThreads) {
  std::atomic<int> mistakes = 0;
  const auto work = [&](int rank) {
    auto tensor = torch::zeros({64}, on_device(rank % kDevices));
    for (int i = 0; i < 200; ++i) tensor.add_(rank).sub_(tensor.clone().sub_(rank * (i + 1)));
    if (!torch::equal(tensor.cpu(), torch::full({64}, rank * 200.F))) ++mistakes;
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank <= 4; ++rank) threads.emplace_back(work, rank);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(mistakes, 0);
}

}  // namespace
}  // namespace kolo::testing::simulated
