#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace kolo {

// In microseconds from the timeline's beginning.
struct Interval {
  double begin = 0, end = 0;
};
[[nodiscard]] Interval interval_of(const nlohmann::json& event);

// Calls `event` with each of a timeline whose line `is_wanted`, in the order of the file. Every
// event has a line of its own, which is what lets a long timeline be read in little memory. A last
// line that a killed rank has cut off is left out. InputError: the file can't be read.
void for_each_event(const std::filesystem::path& path,
                    const std::function<bool(std::string_view line)>& is_wanted,
                    const std::function<void(const nlohmann::json&)>& event);
// Calls `step` with each event that is a step of a rank.
void for_each_step(const std::filesystem::path& path,
                   const std::function<void(const nlohmann::json&, std::int64_t number)>& step);

}  // namespace kolo
