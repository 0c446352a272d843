#include "kolo/layout/stage_cut.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// Bounds of the parts, and their joint value.
template <typename Value>
struct BestCut {
  Value value;
  std::vector<std::size_t> bounds;
};

// Finds the cut with the least joint value of its parts. `join(value, begin, end)` is the value of
// a beginning and the part [begin, end) after it; none if the part is not allowed. `Value{}` is
// that of no part.
template <typename Value, typename Join>
BestCut<Value> best_cut(std::size_t stages, std::size_t parts, const Join& join) {
  std::vector<std::optional<Value>> best(stages + 1);  // of the beginnings, by end
  best[0] = Value{};
  std::vector<std::vector<std::size_t>> begins;  // of the last part, by parts and end
  for (std::size_t number = 0; number < parts; ++number) {
    std::vector<std::optional<Value>> longer(stages + 1);
    auto& begin_of = begins.emplace_back(stages + 1, 0);
    for (std::size_t end = number + 1; end <= stages; ++end) {
      for (std::size_t begin = end; begin-- > number;) {
        if (!best[begin]) continue;
        const std::optional<Value> value = join(*best[begin], begin, end);
        if (!value || (longer[end] && *longer[end] <= *value)) continue;
        longer[end] = value;
        begin_of[end] = begin;
      }
    }
    best = std::move(longer);
  }
  std::vector<std::size_t> bounds(parts + 1, stages);
  for (auto number = parts; number-- > 0;) bounds[number] = begins[number][bounds[number + 1]];
  return {*best[stages], bounds};
}

void require_stages(std::span<const ChainStage> stages, int parts) {
  for (const auto& stage : stages) {
    if (std::isfinite(stage.work) && stage.work >= 0 && stage.bytes_after >= 0) continue;
    throw Error(fmt::format("pipeline: stage {} has work or a size that is negative or not finite",
                            &stage - stages.data()));
  }
  if (parts < 1) throw InputError(fmt::format("pipeline: {} parts, expected 1 or more", parts));
  if (std::ssize(stages) < parts) {
    throw InputError(
        fmt::format("pipeline: {} stages can't be cut into {} parts; ask for {} parts or less",
                    stages.size(), parts, stages.size()));
  }
}

}  // namespace

std::vector<std::size_t> cut_stages(std::span<const ChainStage> stages, int parts) {
  require_stages(stages, parts);
  const auto count = stages.size(), wanted = static_cast<std::size_t>(parts);
  // By begin and end; added up from the end, so that equal parts have equal sums, to the bit.
  std::vector<std::vector<double>> work(count, std::vector<double>(count + 1, 0));
  for (std::size_t end = 1; end <= count; ++end) {
    double sum = 0;
    for (auto begin = end; begin-- > 0;) work[begin][end] = sum += stages[begin].work;
  }
  const auto least =
      best_cut<double>(count, wanted, [&](double largest, std::size_t begin, std::size_t end) {
        return std::max(largest, work[begin][end]);
      });
  const auto fewest = best_cut<std::int64_t>(
      count, wanted,
      [&](std::int64_t bytes, std::size_t begin, std::size_t end) -> std::optional<std::int64_t> {
        if (work[begin][end] > least.value) return std::nullopt;
        return begin == 0 ? bytes : checked_add(bytes, stages[begin - 1].bytes_after);
      });
  return fewest.bounds;
}

}  // namespace kolo
