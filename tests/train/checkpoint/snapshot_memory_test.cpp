#include "kolo/train/checkpoint/snapshot_memory.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

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
    for (const auto& item : tensors) copies.push_back(memory.copy(item.tensor));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(copies[i].scalar_type(), tensors[i].tensor.scalar_type());
      EXPECT_TRUE(copies[i].equal(tensors[i].tensor)) << i;
      EXPECT_FALSE(copies[i].is_alias_of(tensors[i].tensor));
    }
  }
  EXPECT_TRUE(says(message_of<Error>([&] { (void)memory.copy(torch::ones({100})); }),
                   {"a snapshot of more than"}));
}

TEST(SnapshotMemory, IsNotToBeHadWhereTheMachineHasNoMore) {
  const std::uint64_t far_too_much = std::uint64_t{1} << 50;
  EXPECT_FALSE(SnapshotMemory::get(far_too_much));
  EXPECT_FALSE(SnapshotMemory::get(1, far_too_much));
  EXPECT_TRUE(SnapshotMemory::get(1));
}

}  // namespace
}  // namespace kolo::testing
