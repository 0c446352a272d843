#include "kolo/data/preprocessing.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

void check_numbers(std::string_view name, const std::vector<float>& numbers,
                   std::int64_t channels) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  if (count != 1 && count != channels) {
    throw InputError(fmt::format(
        "data: preprocessing has {} numbers of {} for images of {} channels; give one number, or "
        "one a channel",
        count, name, channels));
  }
  for (const float number : numbers) {
    if (!std::isfinite(number)) {
      throw InputError(
          fmt::format("data: a {} of preprocessing is {}, expected a finite number", name, number));
    }
  }
}

}  // namespace

Preprocessing Preprocessing::mean_deviation(std::array<float, 3> mean,
                                            std::array<float, 3> deviation) {
  Preprocessing result{{}, {}, false};
  for (const float number : mean) result.mean.push_back(255 * number);
  for (const float number : deviation) result.deviation.push_back(255 * number);
  return result;
}

void Preprocessing::check(std::int64_t channels) const {
  check_numbers("mean", mean, channels);
  check_numbers("deviation", deviation, channels);
  for (const float number : deviation) {
    if (!(number > 0)) {
      throw InputError(fmt::format(
          "data: a deviation of preprocessing is {}, expected a positive number", number));
    }
  }
  if (blue_first && channels != 3) {
    throw InputError(fmt::format(
        "data: preprocessing swaps red and blue, but the images have {} channels, expected 3",
        channels));
  }
}

}  // namespace kolo
