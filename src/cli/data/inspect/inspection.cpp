#include "cli/data/inspect/inspection.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include <fmt/format.h>

#include "kolo/observe/format.h"

namespace kolo {

namespace {

std::string joined(std::span<const std::int64_t> shape) {
  std::string text;
  for (const auto size : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", size);
  return text.empty() ? "one number" : text;
}

nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::json to_json(const ArrayInspection& array) {
  nlohmann::json json{{"name", array.name},       {"type", array.type},
                      {"shape", array.shape},     {"chunk", array.chunk},
                      {"filters", array.filters}, {"channels", nlohmann::json::array()}};
  for (const auto& [name, range] : array.ranges) {
    json["channels"].push_back({{"name", name},
                                {"min", number_or_null(range.least())},
                                {"max", number_or_null(range.most())},
                                {"mean", number_or_null(range.mean())},
                                {"not_finite", range.not_finite()}});
  }
  return json;
}

void print(const ArrayInspection& array, std::ostream& out) {
  out << fmt::format("  {:10} {} of {}", array.name, joined(array.shape), array.type);
  if (!array.chunk.empty()) out << fmt::format(", in chunks of {}", joined(array.chunk));
  for (const auto& filter : array.filters) out << fmt::format(", {}", filter);
  out << "\n";
  if (array.ranges.empty()) return;
  out << fmt::format("    {:10} {:>12} {:>12} {:>12}\n", "", "min", "max", "mean");
  for (const auto& [name, range] : array.ranges) {
    out << fmt::format("    {:10} {:12.6g} {:12.6g} {:12.6g}", name, range.least(), range.most(),
                       range.mean());
    if (range.not_finite() > 0) {
      out << fmt::format("  {} not finite", format_count(range.not_finite()));
    }
    out << "\n";
  }
}

}  // namespace

void Range::add(double value) {
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  least_ = std::min(least_, value);
  most_ = std::max(most_, value);
  sum_ += value;
  ++count_;
}

void Range::add(std::span<const float> values) {
  for (const float value : values) add(static_cast<double>(value));
}

nlohmann::json to_json(const Inspection& inspection) {
  nlohmann::json json{{"path", inspection.path},           {"format", inspection.format},
                      {"bytes", inspection.bytes},         {"arrays", nlohmann::json::array()},
                      {"facts", nlohmann::json::object()}, {"advice", inspection.advice}};
  for (const auto& array : inspection.arrays) json["arrays"].push_back(to_json(array));
  for (const auto& [name, value] : inspection.facts) json["facts"][name] = value;
  return json;
}

void print(const Inspection& inspection, std::ostream& out) {
  out << fmt::format("{}: {}, {}\n", inspection.path, inspection.format,
                     format_bytes(inspection.bytes));
  for (const auto& array : inspection.arrays) print(array, out);
  for (const auto& [name, value] : inspection.facts) {
    // What a name holds is the user's and may be no UTF-8.
    constexpr auto replace = nlohmann::json::error_handler_t::replace;
    out << fmt::format(
        "  {}: {}\n", name,
        value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, replace));
  }
  for (const auto& advice : inspection.advice) out << fmt::format("  ! {}\n", advice);
}

}  // namespace kolo
