#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"
#include "kolo/base/text.h"
#include "kolo/study/sweep.h"

namespace kolo {

namespace {

// Splits at separators outside of brackets and quotes.
std::vector<std::string> split_outside(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote_mark = 0;
  for (const char letter : text) {
    if (quote_mark != 0) {
      if (letter == quote_mark) quote_mark = 0;
    } else if (letter == '"' || letter == '\'') {
      quote_mark = letter;
    } else if (letter == '[' || letter == '{') {
      ++depth;
    } else if (letter == ']' || letter == '}') {
      --depth;
    } else if (letter == separator && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += letter;
  }
  return parts;
}

[[noreturn]] void refuse_space(const std::string& word, const std::string& reason) {
  throw InputError(fmt::format("sweep: {}: {}", word, reason));
}

constexpr std::string_view log_prefix = "log:";

// Reads a range if the value looks like one: "log:...", or two numbers with dots between them.
bool read_range(SweptKey& key, std::string_view value) {
  const bool is_log = value.starts_with(log_prefix);
  const auto ends = is_log ? value.substr(log_prefix.size()) : value;
  const auto dots = ends.find("..");
  const auto low = parse_number<double>(ends.substr(0, dots));
  const auto high = dots == ends.npos ? std::nullopt : parse_number<double>(ends.substr(dots + 2));
  if (!is_log && (!low || !high)) return false;
  if (!low || !high)
    refuse_space(key.text, "expected two numbers such as log:1e-4..1e-1 after log:");
  const double from = low.value_or(0), to = high.value_or(0);
  if (!(from < to))
    refuse_space(key.text, fmt::format("a range goes upwards, but {} is not below {}",
                                       ends.substr(0, dots), ends.substr(dots + 2)));
  if (is_log && !(from > 0))
    refuse_space(key.text,
                 fmt::format("{} has no logarithm; begin the range above 0", ends.substr(0, dots)));
  key.kind = is_log ? SweptKey::Kind::logarithmic : SweptKey::Kind::uniform;
  key.low = from;
  key.high = to;
  constexpr double most = 1e15;  // whole numbers that a double tells apart
  key.is_whole = parse_number<std::int64_t>(ends.substr(0, dots)).has_value() &&
                 parse_number<std::int64_t>(ends.substr(dots + 2)).has_value() &&
                 std::abs(from) < most && std::abs(to) < most;
  return true;
}

void read_list(SweptKey& key, std::string_view value) {
  std::set<std::string> seen;
  for (const auto& item : split_outside(value, ',')) {
    const auto words = key.keys.size() == 1 ? std::vector{item} : split_outside(item, ':');
    if (std::ranges::any_of(words, [](const auto& word) {
          return word.find_first_not_of(' ') == std::string::npos;
        }))
      refuse_space(key.text, "a value is empty; write values with commas between them: a,b,c");
    if (words.size() != key.keys.size())
      refuse_space(key.text,
                   fmt::format("{} keys vary together, but {} has {}; write one for each, "
                               "with colons between them",
                               key.keys.size(), quote(item), counted(std::ssize(words), "value")));
    if (!seen.insert(item).second)
      refuse_space(key.text, fmt::format("{} is there twice", quote(item)));
    key.values.push_back(words);
  }
}

void require_sweepable(const SweptKey& key, std::set<std::string>& seen) {
  for (const auto& name : key.keys) {
    if (name.empty()) refuse_space(key.text, "expected key=VALUES, and the key is empty");
    if (name == "output_dir")
      refuse_space(key.text, "each trial has a folder of its own in the sweep's, which -o names");
    if (!seen.insert(name).second)
      refuse_space(key.text, fmt::format("{} is given twice; give it once", name));
  }
}

SweptKey read_word(const std::string& word) {
  const auto equals = word.find('=');
  SweptKey key{.text = word, .keys = split_outside(word.substr(0, equals), ','), .values = {}};
  if (equals == std::string::npos) return key;  // the configuration's reader knows what to say
  const auto value = std::string_view(word).substr(equals + 1);
  if (key.keys.size() > 1 || !read_range(key, value)) read_list(key, value);
  return key;
}

bool varies(const SweptKey& key) {
  return key.kind != SweptKey::Kind::list || key.values.size() > 1;
}

}  // namespace

SweepSpace parse_sweep_space(const std::vector<std::string>& words) {
  SweepSpace space;
  std::set<std::string> seen;
  for (const auto& word : words) {
    const auto key = read_word(word);
    if (!varies(key) && key.keys.size() == 1) {
      // The last setting of a key counts, as everywhere; a key that varies may have none.
      space.settings.push_back(word);
      continue;
    }
    require_sweepable(key, seen);
    space.keys.push_back(key);
  }
  for (const auto& setting : space.settings)
    if (seen.contains(key_and_value(setting).first))
      refuse_space(setting, "this key is swept too; give it once");
  if (space.keys.empty())
    throw InputError(
        "sweep: nothing varies: give a key several values, for example "
        "optimizer.lr=0.1,0.01,0.001");
  return space;
}

namespace {

constexpr std::size_t most_trials = 1'000'000;

// Adds the settings of one value of a list.
void add_value(const SweptKey& key, std::size_t value, std::vector<std::string>& settings) {
  for (std::size_t i = 0; i < key.keys.size(); ++i)
    settings.push_back(fmt::format("{}={}", key.keys[i], key.values[value][i]));
}

}  // namespace

std::vector<std::vector<std::string>> grid_of(const SweepSpace& space) {
  std::size_t count = 1;
  for (const auto& key : space.keys) {
    if (key.kind != SweptKey::Kind::list)
      refuse_space(key.text,
                   "a grid has no place for a range; write the values (a,b,c), or add --random N "
                   "for N trials that are drawn from it");
    count = checked_multiply(count, key.values.size());
    if (count > most_trials)
      refuse_space(key.text, fmt::format("these are more than {} trials; give fewer values, or add "
                                         "--random N",
                                         most_trials));
  }
  std::vector<std::vector<std::string>> trials;
  for (std::size_t number = 0; number < count; ++number) {
    auto& settings = trials.emplace_back();
    std::size_t alike = count;  // trials in a row with the same values of the keys so far
    for (const auto& key : space.keys) {
      alike /= key.values.size();
      add_value(key, number / alike % key.values.size(), settings);
    }
  }
  return trials;
}

namespace {

// Text of a number that is drawn: few digits, and never beyond the ends.
std::string draw_number(const SweptKey& key, CounterRandom& random) {
  const bool is_log = key.kind == SweptKey::Kind::logarithmic;
  // Each whole number stands for the interval up to the next one.
  const double high = key.is_whole ? key.high + 1 : key.high;
  const double from = is_log ? std::log(key.low) : key.low;
  const double to = is_log ? std::log(high) : high;
  const double place = static_cast<double>(random.next64() >> 11) * 0x1p-53;  // in [0, 1)
  const double drawn = from + place * (to - from);
  const double value = is_log ? std::exp(drawn) : drawn;
  if (key.is_whole)
    return fmt::format("{}",
                       static_cast<std::int64_t>(std::clamp(std::floor(value), key.low, key.high)));
  const auto text = fmt::format("{:.4g}", value);
  const double shown = parse_number<double>(text).value_or(value);
  if (shown >= key.low && shown <= key.high) return text;
  return fmt::format("{}", std::clamp(shown, key.low, key.high));
}

std::vector<std::string> draw_trial(const SweepSpace& space, CounterRandom& random) {
  std::vector<std::string> settings;
  for (const auto& key : space.keys) {
    if (key.kind != SweptKey::Kind::list) {
      settings.push_back(fmt::format("{}={}", key.keys.front(), draw_number(key, random)));
      continue;
    }
    add_value(key, random.below(narrow<std::uint32_t>(key.values.size())), settings);
  }
  return settings;
}

}  // namespace

std::vector<std::vector<std::string>> random_trials(const SweepSpace& space, std::uint64_t seed,
                                                    int count) {
  constexpr std::uint32_t stream = 0x53574545;
  constexpr int most_draws = 1000;  // repetitions in a row before giving up
  std::vector<std::vector<std::string>> trials;
  std::set<std::vector<std::string>> seen;
  for (int number = 0; number < count; ++number) {
    CounterRandom random(seed, stream, static_cast<std::uint64_t>(number));
    int draws = 0;
    auto trial = draw_trial(space, random);
    while (!seen.insert(trial).second) {
      if (++draws == most_draws)
        throw InputError(
            fmt::format("sweep: --random {}: the keys seem to have no more than {} "
                        "different combinations; ask for fewer trials, or leave "
                        "--random out to try all",
                        count, trials.size()));
      trial = draw_trial(space, random);
    }
    trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace kolo
