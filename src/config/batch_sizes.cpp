#include "config/settle.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/config/factories.h"
#include "settings/value.h"

namespace kolo {

namespace {

constexpr std::array<std::string_view, 3> batch_keys{"batch_size", "local_batch_size",
                                                     "global_batch_size"};

struct Given {
  std::string_view key;
  ConfigValue* value;
};

void require_one(const std::vector<Given>& given) {
  if (given.size() < 2) return;
  throw InputError(
      fmt::format("{}: training.{} and training.{} both say how large a batch is: give the samples "
                  "per rank (batch_size or local_batch_size) or those of all ranks "
                  "(global_batch_size)",
                  given[1].value->place, given[0].key, given[1].key));
}

// Numbers of ranks that share a batch evenly, those next to `ranks`.
std::string fitting_ranks(std::int64_t batch, std::int64_t ranks) {
  constexpr std::size_t most_named = 4;  // on either side
  std::vector<std::int64_t> below, above;
  for (auto count = std::min(ranks, batch); count >= 1 && below.size() < most_named; --count)
    if (batch % count == 0) below.push_back(count);
  // Beyond this nobody has as many ranks.
  const auto end = std::min<std::int64_t>(batch, 1 << 20);
  for (auto count = ranks + 1; count <= end && above.size() < most_named; ++count)
    if (batch % count == 0) above.push_back(count);
  std::vector<std::string> names;
  for (auto each = below.rbegin(); each != below.rend(); ++each)
    names.push_back(std::to_string(*each));
  for (const auto each : above) names.push_back(std::to_string(each));
  return join(names);
}

}  // namespace

void settle_batch_sizes(ConfigValue& root) {
  ConfigValue* const training = root.find("training");
  if (training == nullptr) return;
  std::vector<Given> in_file, on_command_line;
  for (const auto key : batch_keys) {
    ConfigValue* const value = training->find(key);
    if (value == nullptr || value->kind == ConfigValue::Kind::nothing) continue;
    (is_from_command_line(*value) ? on_command_line : in_file).push_back({key, value});
  }
  require_one(on_command_line);
  if (on_command_line.empty()) {
    require_one(in_file);
    return;
  }
  for (const auto& each : in_file) each.value->kind = ConfigValue::Kind::nothing;
}

std::int64_t batch_size_of(const TrainingConfig& training, int ranks) {
  if (!training.global_batch_size) return training.batch_size.value();
  const auto whole = *training.global_batch_size;
  if (whole % ranks == 0) return whole / ranks;
  const auto below = whole / ranks * ranks;
  throw InputError(fmt::format(
      "training.global_batch_size: {} samples can't be shared evenly by {} ranks; {} ranks can "
      "share them, or {} ranks a batch of {}{}",
      whole, ranks, fitting_ranks(whole, ranks), ranks,
      below > 0 ? fmt::format("{} or ", below) : "", below + ranks));
}

double batch_ratio_of(const TrainingConfig& training, int ranks) {
  if (!training.base_batch_size) return ranks;
  const auto whole = checked_multiply<std::int64_t>(batch_size_of(training, ranks), ranks);
  return static_cast<double>(whole) / static_cast<double>(*training.base_batch_size);
}

}  // namespace kolo
