#include "kolo/parallel/device_usage.h"

#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/device_memory.h"
#include "parallel/tensors/tensors.h"

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

std::unique_ptr<DeviceUsageMonitor> monitor_device(
    const Communicator& communicator, const torch::Device& device,
    const std::shared_ptr<const DeviceRuntime>& runtime, const std::string& library) {
  if (device.is_cpu() || !runtime) return nullptr;
  const int index = device.has_index() ? device.index() : runtime->current_device();
  const auto place = runtime->pci_bus_id(index);
  const auto mine = static_cast<std::int64_t>(std::hash<std::string>{}(place));
  const auto& topology = communicator.topology();
  std::vector<std::int64_t> all(static_cast<std::size_t>(topology.size));
  communicator.all_gather(std::span(&mine, 1), std::span(all), {.name = "places of the devices"});
  for (int rank = 0; rank < topology.rank; ++rank) {
    const auto other = static_cast<std::size_t>(rank);
    if (topology.node_of_rank[other] == topology.node && all[other] == mine) return nullptr;
  }
  if (place.empty()) return nullptr;
  NvmlDevice managed(std::make_shared<Nvml>(library), place);
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

DeviceClock::DeviceClock(const torch::Device& device, std::shared_ptr<const DeviceRuntime> runtime)
    : device_(device) {
  if (device.is_cpu()) return;
  if (!runtime && device.is_cuda()) runtime = cuda_runtime();
  runtime_ = std::move(runtime);
}

DeviceClock::Moment DeviceClock::now() const {
  if (!runtime_) return Moment(std::chrono::steady_clock::now());
  const int index = device_.has_index() ? device_.index() : runtime_->current_device();
  return Moment(runtime_->record_timed(index, parallel::current_stream(device_)));
}

double DeviceClock::Moment::seconds_since(const Moment& earlier) const {
  if (!is_known() || !earlier.is_known()) return 0;
  if (event_) return event_->seconds_since(*earlier.event_);
  return std::chrono::duration<double>(host_ - earlier.host_).count();
}

// Nothing may be asked of other events while a graph is recorded.
void DeviceTimeSum::add(DeviceClock::Moment from, DeviceClock::Moment to) {
  if (!from.is_known() || !to.is_known()) return;
  under_way_.emplace_back(std::move(from), std::move(to));
  while (!under_way_.empty() && under_way_.front().second.is_past()) {
    done_ += under_way_.front().second.seconds_since(under_way_.front().first);
    under_way_.pop_front();
  }
}

double DeviceTimeSum::seconds() {
  for (const auto& [from, to] : under_way_) done_ += to.seconds_since(from);
  under_way_.clear();
  return done_;
}

namespace {

std::string gibibytes(double bytes) {
  return fmt::format("{:.2f} GiB", bytes / (1 << 30));
}

}  // namespace

std::string describe_out_of_memory(std::string_view phase, const torch::Device& device,
                                   const std::optional<DeviceMemoryUse>& use,
                                   std::string_view problem) {
  std::string text = fmt::format("device: {} has too little memory for this step: {} did not fit",
                                 device.str(), phase);
  if (use) {
    const auto& [free, total] = use->device;
    text += fmt::format(
        " ({} of {} free; this rank's tensors took {} at most, LibTorch has reserved {})",
        gibibytes(static_cast<double>(free)), gibibytes(static_cast<double>(total)),
        gibibytes(static_cast<double>(use->peak_allocated_bytes)),
        gibibytes(static_cast<double>(use->peak_reserved_bytes)));
  }
  return text + fmt::format(
                    "; use a smaller training.batch_size or training.precision=bf16, more GPUs, or "
                    "end other programs on this one. LibTorch: {}",
                    problem.substr(0, problem.find('\n')));
}

}  // namespace kolo
