#include "kolo/layout/stage_cut.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// Some stages in a row, as the part with a number.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
  double seconds = 0;
  std::int64_t memory = 0;
};

class Chain {
 public:
  Chain(std::span<const ChainStage> stages, const StageCutOptions& options)
      : stages_(stages), options_(options), parts_(static_cast<std::size_t>(options.parts)) {}

  // The bounds for which the parts' values, joined one after another, come to the least.
  // `join(value, part)` is the value of a beginning and a part after it; none where the part can't
  // be. `Value{}` is that of no part. None where no cut is possible.
  template <typename Value, typename Join>
  [[nodiscard]] std::optional<std::vector<std::size_t>> best_bounds(const Join& join) const {
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
    if (!best[count]) return std::nullopt;
    std::vector<std::size_t> bounds(parts_ + 1, count);
    for (auto number = parts_; number-- > 0;) bounds[number] = begins[number][bounds[number + 1]];
    return bounds;
  }

  [[nodiscard]] bool fits(const Part& part) const {
    return !options_.memory_limit || part.memory <= *options_.memory_limit;
  }
  [[nodiscard]] std::int64_t bytes_before(const Part& part) const {
    return part.begin == 0 ? 0 : stages_[part.begin - 1].bytes_after;
  }

  [[nodiscard]] StageCut describe(const std::vector<std::size_t>& bounds) const {
    StageCut cut{.bounds = bounds};
    for (std::size_t number = 0; number < parts_; ++number) {
      for_each_part(number, bounds[number + 1], [&](const Part& part) {
        if (part.begin != bounds[number]) return;
        cut.largest_seconds = std::max(cut.largest_seconds, part.seconds);
        cut.largest_memory = std::max(cut.largest_memory, part.memory);
        cut.bytes_between = checked_add(cut.bytes_between, bytes_before(part));
      });
    }
    return cut;
  }

 private:
  // All parts with that number and end, the shortest first. Sums are always added up in this order,
  // so that equal parts have equal ones, to the bit.
  template <typename Visit>
  void for_each_part(std::size_t number, std::size_t end, const Visit& visit) const {
    const auto kept = options_.kept_micro_batches.empty() ? 0 : options_.kept_micro_batches[number];
    Part part{end, end};
    while (part.begin > number) {
      const auto& stage = stages_[--part.begin];
      part.seconds += stage.seconds;
      const auto memory = checked_add(stage.memory_bytes, checked_multiply(stage.kept_bytes, kept));
      part.memory = checked_add(part.memory, memory);
      visit(part);
    }
  }

  std::span<const ChainStage> stages_;
  const StageCutOptions& options_;
  std::size_t parts_;
};

void require_stages(std::span<const ChainStage> stages, const StageCutOptions& options) {
  for (const auto& stage : stages) {
    if (std::isfinite(stage.seconds) && stage.seconds >= 0 && stage.bytes_after >= 0 &&
        stage.memory_bytes >= 0 && stage.kept_bytes >= 0)
      continue;
    throw Error(
        fmt::format("pipeline: stage {} has a time or a size that is negative or not finite",
                    &stage - stages.data()));
  }
  if (options.parts < 1) {
    throw InputError(fmt::format("pipeline: {} parts, expected 1 or more", options.parts));
  }
  const auto& kept = options.kept_micro_batches;
  if (!kept.empty() && (std::ssize(kept) != options.parts || std::ranges::min(kept) < 0)) {
    throw Error(
        fmt::format("pipeline: micro-batches kept by {} parts, expected {} numbers from 0 on",
                    kept.size(), options.parts));
  }
  if (std::ssize(stages) < options.parts) {
    throw InputError(
        fmt::format("pipeline: {} stages can't be cut into {} parts; ask for {} parts "
                    "or less (ranks times chunks per rank)",
                    stages.size(), options.parts, stages.size()));
  }
}

// What the largest part takes at least, in bytes, with so many parts.
std::int64_t least_memory(std::span<const ChainStage> stages, const StageCutOptions& options) {
  const Chain chain(stages, options);
  const auto bounds = chain.best_bounds<std::int64_t>([](std::int64_t largest, const Part& part) {
    return std::optional(std::max(largest, part.memory));
  });
  return chain.describe(*bounds).largest_memory;
}

[[noreturn]] void refuse_memory(std::span<const ChainStage> stages,
                                const StageCutOptions& options) {
  const auto limit = *options.memory_limit;
  auto message = fmt::format(
      "pipeline: {} parts of at most {} bytes each: the largest takes {} bytes however they are "
      "cut",
      options.parts, limit, least_memory(stages, options));
  // How many micro-batches parts keep is known for that many parts alone.
  if (options.kept_micro_batches.empty()) {
    StageCutOptions more{.parts = options.parts, .memory_limit = options.memory_limit};
    while (++more.parts <= std::ssize(stages)) {
      if (least_memory(stages, more) > limit) continue;
      throw InputError(fmt::format("{}; {} parts would do", message, more.parts));
    }
    message += fmt::format(", and of all {} stages by themselves {}", stages.size(),
                           std::ranges::max(stages, {}, &ChainStage::memory_bytes).memory_bytes);
  }
  throw InputError(message);
}

}  // namespace

StageCut cut_stages(std::span<const ChainStage> stages, const StageCutOptions& options) {
  require_stages(stages, options);
  const Chain chain(stages, options);
  const auto fastest = chain.best_bounds<double>([&](double largest, const Part& part) {
    return chain.fits(part) ? std::optional(std::max(largest, part.seconds)) : std::nullopt;
  });
  if (!fastest) refuse_memory(stages, options);
  const auto limit = chain.describe(*fastest).largest_seconds;
  const auto fewest_bytes =
      chain.best_bounds<std::int64_t>([&](std::int64_t bytes, const Part& part) {
        return chain.fits(part) && part.seconds <= limit
                   ? std::optional(checked_add(bytes, chain.bytes_before(part)))
                   : std::nullopt;
      });
  return chain.describe(*fewest_bytes);
}

}  // namespace kolo
