#include "base/natural_order.h"

#include <algorithm>
#include <cstddef>

namespace kolo {

namespace {

struct NameReading {
  bool has_fractions = false, has_signs = false, folds_case = false;
};

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool is_digit_at(std::string_view name, std::size_t place) {
  return place < name.size() && is_digit(name[place]);
}

// A number within a name.
struct NameNumber {
  std::size_t length = 0;  // in the name; 0: there is none
  bool is_negative = false;
  std::string_view whole, fraction;  // digits, without leading and trailing zeros
};

// A minus belongs to a number where nothing, or no letter or digit that it could join, comes
// before, as in "-1", "x=-1" and "1e-5"; in "run-1" it is a hyphen.
bool has_sign(std::string_view name, std::size_t place) {
  if (name[place] != '-' || !is_digit_at(name, place + 1)) return false;
  if (place == 0) return true;
  const char before = name[place - 1];
  if (before == 'e' || before == 'E') return place >= 2 && is_digit(name[place - 2]);
  return std::string_view("_= (").find(before) != std::string_view::npos;
}

std::string_view take_digits(std::string_view name, std::size_t place) {
  auto end = place;
  while (is_digit_at(name, end)) ++end;
  return name.substr(place, end - place);
}

NameNumber number_at(std::string_view name, std::size_t place, const NameReading& reading) {
  NameNumber number;
  number.is_negative = reading.has_signs && has_sign(name, place);
  if (number.is_negative) number.length = 1;
  number.whole = take_digits(name, place + number.length);
  if (number.whole.empty()) return {};
  number.length += number.whole.size();
  number.whole.remove_prefix(std::min(number.whole.find_first_not_of('0'), number.whole.size()));
  const auto point = place + number.length;
  if (reading.has_fractions && point < name.size() && name[point] == '.') {
    number.fraction = take_digits(name, point + 1);
    if (!number.fraction.empty()) number.length += 1 + number.fraction.size();
    number.fraction = number.fraction.substr(0, number.fraction.find_last_not_of('0') + 1);
  }
  return number;
}

int compare_numbers(const NameNumber& a, const NameNumber& b) {
  const auto is_zero = [](const NameNumber& number) {
    return number.whole.empty() && number.fraction.empty();
  };
  const bool a_is_below = a.is_negative && !is_zero(a), b_is_below = b.is_negative && !is_zero(b);
  if (a_is_below != b_is_below) return a_is_below ? -1 : 1;
  int order = 0;
  if (a.whole.size() != b.whole.size())
    order = a.whole.size() < b.whole.size() ? -1 : 1;
  else if (const int whole = a.whole.compare(b.whole); whole != 0)
    order = whole;
  else
    order = a.fraction.compare(b.fraction);
  return a_is_below ? -order : order;
}

unsigned char letter_at(std::string_view name, std::size_t place, const NameReading& reading) {
  const char letter = name[place];
  const bool is_capital = letter >= 'A' && letter <= 'Z';
  return static_cast<unsigned char>(reading.folds_case && is_capital ? letter - 'A' + 'a' : letter);
}

int compare_names(std::string_view a, std::string_view b, const NameReading& reading) {
  // From the number on in which the names begin to differ.
  const auto differing = std::ranges::mismatch(a, b).in1 - a.begin();
  auto i = static_cast<std::size_t>(differing);
  while (i > 0 && (is_digit(a[i - 1]) || a[i - 1] == '.' || a[i - 1] == '-')) --i;
  auto j = i;
  while (i < a.size() && j < b.size()) {
    const auto left = number_at(a, i, reading), right = number_at(b, j, reading);
    if (left.length > 0 && right.length > 0) {
      if (const int order = compare_numbers(left, right); order != 0) return order;
      i += left.length;
      j += right.length;
      continue;
    }
    const auto one = letter_at(a, i++, reading), other = letter_at(b, j++, reading);
    if (one != other) return one < other ? -1 : 1;
  }
  return (j < b.size() ? -1 : 0) + (i < a.size() ? 1 : 0);
}

}  // namespace

bool comes_before(std::string_view a, std::string_view b) {
  const int order = compare_names(a, b, {});
  return order != 0 ? order < 0 : a < b;
}

std::optional<std::pair<std::string, std::string>> find_names_in_doubt(
    std::span<const std::string> names) {
  for (const NameReading reading :
       {NameReading{}, NameReading{.has_fractions = true}, NameReading{.has_signs = true},
        NameReading{.folds_case = true}}) {
    for (std::size_t i = 1; i < names.size(); ++i)
      if (compare_names(names[i - 1], names[i], reading) >= 0)
        return std::pair(names[i - 1], names[i]);
  }
  return std::nullopt;
}

std::optional<std::pair<std::string, std::string>> find_names_out_of_bytes_order(
    std::span<const std::string> names) {
  const auto second = std::ranges::adjacent_find(names, std::ranges::greater());
  if (second == names.end()) return std::nullopt;
  return std::pair(*second, *(second + 1));
}

}  // namespace kolo
