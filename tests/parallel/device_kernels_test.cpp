// Passes over flat memory of CUDA devices against those of the host.
#include <cmath>
#include <limits>
#include <span>

#include <gmock/gmock.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/reduction_order.h"
#include "kolo/base/error.h"
#include "kolo/parallel/checks.h"
#include "parallel/kernels.h"
#include "support/errors.h"
#include "support/gpu.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::message_of;

template <typename T>
constexpr auto type_of = torch::CppTypeToScalarType<T>::value;

torch::TensorOptions on_device(torch::ScalarType type) {
  return torch::TensorOptions().device(torch::kCUDA).dtype(type);
}

template <typename T>
std::span<T> span_of(const torch::Tensor& tensor) {
  return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

// Returns as many elements, from the address of element `offset` of an allocation on.
torch::Tensor device_copy(const torch::Tensor& host, std::int64_t offset) {
  auto whole = torch::empty({host.numel() + offset}, on_device(host.scalar_type()));
  return whole.narrow(0, offset, host.numel()).copy_(host);
}

torch::Tensor bytes_on_device(std::size_t bytes) {
  return torch::empty({static_cast<std::int64_t>(bytes)}, on_device(torch::kByte));
}

class DeviceKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    KOLO_SKIP_WITHOUT_GPU();
    torch::manual_seed(5);
  }

  static constexpr std::int64_t sizes[] = {0, 1, 3, 4096, 300'003};
  static constexpr std::int64_t offsets[] = {0, 1, 3};
};

template <typename T, typename Visit>
void for_each_tensor(std::span<const std::int64_t> sizes, std::span<const std::int64_t> offsets,
                     const Visit& visit) {
  for (const std::int64_t size : sizes) {
    for (const std::int64_t offset : offsets) {
      const auto host = torch::randn({size}, type_of<T>);
      visit(host, device_copy(host, offset));
    }
  }
}

template <typename T>
double squares_on_device(double total, const torch::Tensor& values) {
  const auto sum = torch::full({1}, total, on_device(torch::kDouble));
  const auto workspace =
      bytes_on_device(parallel::squares_workspace_bytes(static_cast<std::size_t>(values.numel())));
  parallel::add_squares_on_device(sum.data_ptr<double>(), span_of<const T>(values),
                                  span_of<std::byte>(workspace), nullptr);
  return sum.item<double>();
}

// Adds up in the device's order.
template <typename T>
double sum_of_squares(std::span<const T> values) {
  const auto term = [&](std::size_t i) {
    return static_cast<double>(values[i]) * static_cast<double>(values[i]);
  };
  return reduction::total(values.size(), 0., term, [](double a, double b) { return a + b; });
}

TEST_F(DeviceKernels, NormsAreTheHostsButForTheOrder) {
  const auto compare = [&]<typename T>(T) {
    for_each_tensor<T>(sizes, offsets, [](const torch::Tensor& host, const torch::Tensor& device) {
      const auto values = span_of<const T>(host);
      const double found = squares_on_device<T>(1, device);
      EXPECT_EQ(found, 1 + sum_of_squares<T>(values)) << values.size();
      const double expected = 1 + parallel::sum_of_squares(values);
      EXPECT_NEAR(found, expected, 1e-13 * expected) << values.size() << " values";
    });
  };
  compare(float());
  compare(double());
}

TEST_F(DeviceKernels, NormsOfWhatIsNoNumberAreNone) {
  for (const std::int64_t position : {0, 5000, 9999}) {
    const auto values = torch::ones({10'000}, on_device(torch::kFloat));
    values[position] = std::nan("");
    EXPECT_TRUE(std::isnan(squares_on_device<float>(1, values))) << position;
  }
}

template <typename T>
bool finds_all_bits(const torch::Tensor& values, T mask) {
  const auto found = torch::zeros({1}, on_device(torch::kInt));
  parallel::find_all_bits_on_device(span_of<const T>(values), mask, found.data_ptr<std::int32_t>(),
                                    nullptr);
  return found.item<std::int32_t>() == 1;
}

template <typename T>
void expect_found(torch::ScalarType type, T mask) {
  for (const std::int64_t offset : {0, 1, 3}) {
    const auto values = device_copy(torch::randn({10'003}).to(type), offset);
    EXPECT_FALSE(finds_all_bits(values, mask)) << type;
    for (const std::int64_t position : {0, 1, 7777, 10'002}) {
      const auto changed = device_copy(values, offset);
      changed[position] =
          position % 2 == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
      EXPECT_TRUE(finds_all_bits(changed, mask)) << type << ", element " << position;
    }
  }
  EXPECT_FALSE(finds_all_bits(torch::empty({0}, on_device(type)), mask));
}

TEST_F(DeviceKernels, WhatIsNotFiniteIsFound) {
  expect_found<std::uint64_t>(torch::kDouble, 0x7ff0'0000'0000'0000U);
  expect_found<std::uint32_t>(torch::kFloat, 0x7f80'0000U);
  expect_found<std::uint16_t>(torch::kBFloat16, 0x7f80U);
  expect_found<std::uint16_t>(torch::kHalf, 0x7c00U);
}

TEST_F(DeviceKernels, WhatWasFoundBeforeStays) {
  const auto found = torch::ones({1}, on_device(torch::kInt));
  const auto values = torch::ones({100}, on_device(torch::kFloat));
  parallel::find_all_bits_on_device(span_of<const std::uint32_t>(values), 0x7f80'0000U,
                                    found.data_ptr<std::int32_t>(), nullptr);
  EXPECT_EQ(found.item<std::int32_t>(), 1);
}

TEST_F(DeviceKernels, ChecksumsAreTheHosts) {
  for (const std::int64_t size : {0, 1, 511, 513, 5 << 18, (1 << 24) + 1234}) {
    const auto host = torch::randint(256, {size}, torch::kByte);
    for (const std::int64_t offset : {0, 1, 4})
      EXPECT_EQ(checksum_of(device_copy(host, offset)), checksum_of(host))
          << size << " bytes from " << offset;
  }
}

TEST_F(DeviceKernels, AWorkspaceTooSmallIsAnError) {
  const auto values = torch::ones({10'000}, on_device(torch::kFloat));
  const auto total = torch::zeros({1}, on_device(torch::kDouble));
  EXPECT_TRUE(says(message_of<Error>([&] {
                     parallel::add_squares_on_device(total.data_ptr<double>(),
                                                     span_of<const float>(values), {}, nullptr);
                   }),
                   {"a norm on a device with a workspace of 0 bytes, expected 24"}));
}

}  // namespace
}  // namespace kolo
