#include "kolo/parallel/device_usage.h"

#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kolo {

namespace {

// All where every part is known, and not a number otherwise: a part is no smaller whole.
double weighted_mean(std::span<const DeviceUsage> parts, double DeviceUsage::*member,
                     double (*weight)(const DeviceUsage&)) {
  double sum = 0, weights = 0;
  for (const auto& part : parts) {
    if (part.seconds <= 0) continue;
    sum += weight(part) * part.*member;
    weights += weight(part);
  }
  return sum / weights;
}

DeviceUsage together(std::span<const DeviceUsage> parts, double (*weight)(const DeviceUsage&)) {
  DeviceUsage all;
  all.utilization = weighted_mean(parts, &DeviceUsage::utilization, weight);
  all.megahertz = weighted_mean(parts, &DeviceUsage::megahertz, weight);
  all.joules = 0;
  for (const auto& part : parts) {
    if (part.seconds <= 0) continue;
    all.joules += part.joules;
    all.celsius = std::fmax(all.celsius, part.celsius);
  }
  return all;
}

// "1.53 kW"
std::string with_unit(double value, std::string_view unit) {
  constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T"};
  std::size_t prefix = 0;
  for (; std::abs(value) >= 999.5 && prefix + 1 < std::size(prefixes); ++prefix) value /= 1000;
  return fmt::format("{:.3g} {}{}", value, prefixes[prefix], unit);
}

}  // namespace

std::string describe(const DeviceUsage& usage) {
  std::vector<std::string> parts;
  if (std::isfinite(usage.joules)) {
    parts.push_back(with_unit(usage.watts(), "W"));
    parts.push_back(with_unit(usage.joules, "J"));
  }
  if (std::isfinite(usage.utilization))
    parts.push_back(fmt::format("{:.0f} % busy", 100 * usage.utilization));
  if (std::isfinite(usage.megahertz)) parts.push_back(fmt::format("{:.0f} MHz", usage.megahertz));
  if (std::isfinite(usage.celsius)) parts.push_back(fmt::format("{:.0f} C at most", usage.celsius));
  return parts.empty() ? "nothing is known" : fmt::format("{}", fmt::join(parts, ", "));
}

DeviceUsage one_after_another(std::span<const DeviceUsage> stretches) {
  auto all = together(stretches, [](const DeviceUsage& part) { return part.seconds; });
  for (const auto& part : stretches) all.seconds += part.seconds;
  return all;
}

DeviceUsage side_by_side(std::span<const DeviceUsage> devices) {
  auto all = together(devices, [](const DeviceUsage&) { return 1.; });
  for (const auto& device : devices) all.seconds = std::fmax(all.seconds, device.seconds);
  return all;
}

void DeviceUsageMonitor::Mean::add(const std::optional<double>& value) {
  if (!value) return;
  sum += *value;
  ++count;
}

double DeviceUsageMonitor::Mean::value() const {
  return count == 0 ? DeviceUsage::unknown : sum / static_cast<double>(count);
}

DeviceUsageMonitor::DeviceUsageMonitor(NvmlDevice device, std::chrono::milliseconds interval)
    : device_(std::move(device)), interval_(interval) {
  start_again();
  sampler_ = std::jthread([this](const std::stop_token& stop) { sample_until(stop); });
}

void DeviceUsageMonitor::start_again() {
  watts_ = utilization_ = megahertz_ = {};
  celsius_ = DeviceUsage::unknown;
  since_begin_.restart();
  joules_at_begin_ = device_.read().joules;
}

void DeviceUsageMonitor::sample() {
  const auto reading = device_.read();
  watts_.add(reading.watts);
  utilization_.add(reading.utilization);
  megahertz_.add(reading.megahertz);
  celsius_ = std::fmax(celsius_, reading.celsius.value_or(DeviceUsage::unknown));
}

void DeviceUsageMonitor::sample_until(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, interval_, [] { return false; });
    if (!stop.stop_requested()) sample();
  }
}

DeviceUsage DeviceUsageMonitor::take() {
  const std::lock_guard lock(mutex_);
  sample();
  DeviceUsage usage;
  usage.seconds = since_begin_.seconds();
  usage.utilization = utilization_.value();
  usage.megahertz = megahertz_.value();
  usage.celsius = celsius_;
  usage.joules = watts_.value() * usage.seconds;
  if (const auto joules = device_.read().joules; joules && joules_at_begin_)
    usage.joules = *joules - *joules_at_begin_;
  start_again();
  return usage;
}

std::unique_ptr<DeviceUsageMonitor> monitor_device(const Communicator& communicator,
                                                   const torch::Device& device,
                                                   const DeviceUsageSources& sources) {
  if (device.is_cpu() || !sources.runtime) return nullptr;
  const int index = device.has_index() ? device.index() : sources.runtime->current_device();
  const auto place = sources.runtime->pci_bus_id(index);
  const auto mine = static_cast<std::int64_t>(std::hash<std::string>{}(place));
  const auto& topology = communicator.topology();
  std::vector<std::int64_t> all(static_cast<std::size_t>(topology.size));
  communicator.all_gather(std::span(&mine, 1), std::span(all), {.name = "places of the devices"});
  for (int rank = 0; rank < topology.rank; ++rank) {
    const auto other = static_cast<std::size_t>(rank);
    if (topology.node_of_rank[other] == topology.node && all[other] == mine) return nullptr;
  }
  if (place.empty()) return nullptr;
  NvmlDevice managed(std::make_shared<Nvml>(sources.library), place);
  if (!managed.problem().empty()) return nullptr;
  return std::make_unique<DeviceUsageMonitor>(std::move(managed));
}

std::vector<DeviceUsage> gather(const Communicator& communicator,
                                const std::optional<DeviceUsage>& mine) {
  const auto own = mine.value_or(DeviceUsage{});
  const std::array values = {own.seconds, own.joules, own.utilization, own.megahertz, own.celsius};
  std::vector<double> all(values.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span<const double>(values), std::span(all),
                          {.name = "what the devices took"});
  std::vector<DeviceUsage> usages;
  for (std::size_t at = 0; at < all.size(); at += values.size())
    usages.push_back({all[at], all[at + 1], all[at + 2], all[at + 3], all[at + 4]});
  return usages;
}

}  // namespace kolo
