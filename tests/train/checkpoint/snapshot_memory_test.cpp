#include "kolo/train/checkpoint/snapshot_memory.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

SnapshotMemory memory_for(const std::vector<NamedTensor>& tensors) {
  return SnapshotMemory::get(SnapshotMemory::bytes_for(tensors)).value();
}

TEST(SnapshotMemory, CopiesTensorsOfAnyTypeStridesAndLength) {
  std::vector<NamedTensor> tensors;
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16,
                          torch::kLong, torch::kByte, torch::kBool}) {
    for (const std::int64_t length : {0, 1, 7, 4097, 700'001})
      tensors.push_back({"", (torch::rand({length}) * 3 - 1).to(type)});
  }
  const auto box = torch::rand({4, 5, 6, 7});
  for (const auto& view :
       {box.permute({0, 2, 3, 1}), box.slice(2, 1, 4), box[2], torch::rand({}),
        torch::rand({1, 3}).expand({5, 3}), box.contiguous(torch::MemoryFormat::ChannelsLast)})
    tensors.push_back({"", view});
  auto memory = memory_for(tensors);
  for (int round = 0; round < 2; ++round) {
    memory.clear();
    std::vector<torch::Tensor> copies;
    for (const auto& item : tensors) {
      auto [copy, values] = memory.copy(item.tensor);
      EXPECT_EQ(values, Values::finite);
      copies.push_back(std::move(copy));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(copies[i].scalar_type(), tensors[i].tensor.scalar_type());
      EXPECT_TRUE(copies[i].equal(tensors[i].tensor)) << i;
      EXPECT_FALSE(copies[i].is_alias_of(tensors[i].tensor));
    }
  }
  EXPECT_TRUE(says(message_of<Error>([&] { (void)memory.copy(torch::ones({100})); }),
                   {"a snapshot of more than"}));
}

TEST(SnapshotMemory, SeesOneValueThatIsNotFiniteWhereverItIs) {
  const auto values_with = [](torch::ScalarType type, std::int64_t length, std::int64_t index,
                              float value) {
    auto tensor = torch::full({length}, -2, type);
    tensor[index] = value;
    auto memory = memory_for({{"", tensor}});
    return memory.copy(tensor).values;
  };
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    for (const std::int64_t index : {0, 1, 4095, 299'999, 600'000}) {
      EXPECT_EQ(values_with(type, 600'001, index, infinity), Values::infinite);
      EXPECT_EQ(values_with(type, 600'001, index, -infinity), Values::infinite);
      EXPECT_EQ(values_with(type, 600'001, index, -std::nanf("")), Values::nan);
      EXPECT_EQ(values_with(type, 600'001, index, -0.F), Values::finite);
    }
  }
  EXPECT_EQ(values_with(torch::kFloat, 3, 1, std::numeric_limits<float>::max()), Values::finite);
}

TEST(SnapshotMemory, IsNotToBeHadWhereTheMachineHasNoMore) {
  const std::uint64_t far_too_much = std::uint64_t{1} << 50;
  EXPECT_FALSE(SnapshotMemory::get(far_too_much));
  EXPECT_FALSE(SnapshotMemory::get(1, far_too_much));
  EXPECT_TRUE(SnapshotMemory::get(1));
}

}  // namespace
}  // namespace kolo::testing
