#include "kolo/layout/stage_cut.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// Some stages in a row.
struct Part {
  std::size_t begin = 0;
  double work = 0;
};

class Chain {
 public:
  Chain(std::span<const ChainStage> stages, int parts)
      : stages_(stages), parts_(static_cast<std::size_t>(parts)) {}

  // The bounds for which the parts' values, joined one after another, come to the least.
  // `join(value, part)` is the value of a beginning and a part after it; none where the part can't
  // be. `Value{}` is that of no part.
  template <typename Value, typename Join>
  [[nodiscard]] std::vector<std::size_t> best_bounds(const Join& join) const {
    const auto count = stages_.size();
    std::vector<std::optional<Value>> best(count + 1);  // of the beginnings, by end
    best[0] = Value{};
    std::vector<std::vector<std::size_t>> begins;  // of the last part, by parts and end
    for (std::size_t number = 0; number < parts_; ++number) {
      std::vector<std::optional<Value>> longer(count + 1);
      auto& begin = begins.emplace_back(count + 1, 0);
      for (std::size_t end = number + 1; end <= count; ++end) {
        for_each_part(number, end, [&](const Part& part) {
          if (!best[part.begin]) return;
          const auto value = join(*best[part.begin], part);
          if (!value || (longer[end] && *longer[end] <= *value)) return;
          longer[end] = value;
          begin[end] = part.begin;
        });
      }
      best = std::move(longer);
    }
    std::vector<std::size_t> bounds(parts_ + 1, count);
    for (auto number = parts_; number-- > 0;) bounds[number] = begins[number][bounds[number + 1]];
    return bounds;
  }

  [[nodiscard]] std::int64_t bytes_before(const Part& part) const {
    return part.begin == 0 ? 0 : stages_[part.begin - 1].bytes_after;
  }

  [[nodiscard]] double largest_work(const std::vector<std::size_t>& bounds) const {
    double largest = 0;
    for (std::size_t number = 0; number < parts_; ++number) {
      for_each_part(number, bounds[number + 1], [&](const Part& part) {
        if (part.begin == bounds[number]) largest = std::max(largest, part.work);
      });
    }
    return largest;
  }

 private:
  // All parts with that number and end, the shortest first. Sums are always added up in this order,
  // so that equal parts have equal ones, to the bit.
  template <typename Visit>
  void for_each_part(std::size_t number, std::size_t end, const Visit& visit) const {
    Part part{end};
    while (part.begin > number) {
      part.work += stages_[--part.begin].work;
      visit(part);
    }
  }

  std::span<const ChainStage> stages_;
  std::size_t parts_;
};

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
  const Chain chain(stages, parts);
  const auto limit =
      chain.largest_work(chain.best_bounds<double>([](double largest, const Part& part) {
        return std::optional(std::max(largest, part.work));
      }));
  return chain.best_bounds<std::int64_t>([&](std::int64_t bytes, const Part& part) {
    return part.work <= limit ? std::optional(checked_add(bytes, chain.bytes_before(part)))
                              : std::nullopt;
  });
}

}  // namespace kolo
