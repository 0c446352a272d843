// Turned crops beside their definition, number by number: small ones and large, which are stored
// past the caches, of lengths that fill vectors and others.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/boxes/turned_numbers.h"
#include "kolo/data/box_files.h"

namespace kolo {
namespace {

struct Box {
  std::int64_t channels, size;
  std::vector<float> values;

  Box(std::int64_t channels_, std::int64_t size_)
      : channels(channels_),
        size(size_),
        values(static_cast<std::size_t>(channels * size * size * size)) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 + static_cast<float>(i % 99'991);
  }

  [[nodiscard]] std::array<std::int64_t, 4> strides(bool channel_last) const {
    if (channel_last) return {1, size * size * channels, size * channels, channels};
    return {size * size * size, size * size, size, 1};
  }
};

// Room for a crop that begins at a multiple of 64 bytes, or one number behind it.
class Room {
 public:
  Room(std::size_t numbers, bool is_aligned)
      : size_(numbers),
        memory_(static_cast<float*>(
            std::aligned_alloc(64, (numbers * sizeof(float) + 2 * 64) / 64 * 64))),
        first_(memory_.get() + (is_aligned ? 0 : 1)) {
    std::fill_n(first_, size_, -1e9F);
  }
  [[nodiscard]] float* data() const { return first_; }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::size_t size_;
  std::unique_ptr<float, Free> memory_;
  float* first_;
};

using Extent = std::array<std::int64_t, 3>;

void expect_turned(const Box& box, bool channel_last, const Extent& extent, const CropTurn& turn,
                   bool is_aligned) {
  const FieldView view{box.values.data() + 3 * (channel_last ? box.channels : 1),
                       box.strides(channel_last)};
  const Room room(static_cast<std::size_t>(box.channels * extent[0] * extent[1] * extent[2]),
                  is_aligned);
  std::vector<float> plane;
  copy_rotated(view, box.channels, extent, turn, plane, room.data());
  EXPECT_EQ(testing::wrong_numbers(room.data(), view, box.channels, extent, turn), 0);
}

TEST(RotatedCopy, IsWhatTheSymmetrySays) {
  for (const std::int64_t size : {1, 5, 16, 20, 41, 44, 48}) {
    const Box box(4, size + 3);
    for (std::size_t number = 0; number<48; number += size> 40 ? 5 : 1) {
      for (const bool turns_velocity : {false, true}) {
        const CropTurn turn{cube_group()[number], turns_velocity};
        for (const bool is_aligned : {true, false}) {
          SCOPED_TRACE(fmt::format("size {}, symmetry {}, velocity {}, aligned {}", size, number,
                                   turns_velocity, is_aligned));
          expect_turned(box, number % 3 == 2, {size, size, size}, turn, is_aligned);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Regions of any lengths, as parts of crops are.
TEST(RotatedCopy, OfRegionsThatAreNoCubes) {
  for (const Extent& extent : {Extent{1, 5, 3},
                               {16, 32, 48},
                               {32, 64, 64},
                               {64, 20, 48},
                               {44, 64, 32},
                               {33, 48, 64},
                               {64, 64, 24}}) {
    const Box box(4, 67);
    for (std::size_t number = 0; number < 48; ++number) {
      const CropTurn turn{cube_group()[number], number % 2 == 1};
      SCOPED_TRACE(fmt::format("{}x{}x{}, symmetry {}", extent[0], extent[1], extent[2], number));
      expect_turned(box, number % 3 == 2, extent, turn, number % 4 != 0);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kolo
