#include "kolo/study/bench.h"

#include <algorithm>
#include <numeric>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/statistics.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

const BenchMeasurement* find(const BenchReport& report, BenchMode mode) {
  for (const auto& measurement : report.measurements)
    if (measurement.mode == mode) return &measurement;
  return nullptr;
}

// Each rank's own samples per second, in one trial.
std::vector<double> rank_rates(const BenchMeasurement& measurement, std::size_t trial) {
  std::vector<double> rates;
  for (const auto& trials : measurement.trials)
    rates.push_back(trials[trial].samples / trials[trial].seconds);
  return rates;
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<std::uint64_t>(bytes));
}

// A text for each rank, side by side.
template <typename Value, typename Text>
std::string by_rank(const std::vector<Value>& values, Text text) {
  std::vector<std::string> texts;
  for (const auto& value : values) texts.push_back(text(value));
  return join(texts, "  ");
}

// "rank", "replica of 2 ranks", "virtual rank, 4 of them".
std::string batch_owner(const BenchSetup& setup) {
  if (setup.virtual_ranks > 0) return fmt::format("virtual rank, {} of them", setup.virtual_ranks);
  if (setup.ranks_per_replica == 1) return "rank";
  return fmt::format("replica of {} ranks", setup.ranks_per_replica);
}

std::string line_of(const BenchMeasurement& measurement, std::int64_t steps) {
  const auto rate = rate_of(measurement);
  return fmt::format("{:<9}  {:>9}  {:>17}  {:>11}  {}\n", name_of(measurement.mode),
                     format_rate(rate.median),
                     fmt::format("{} - {}", format_rate(rate.lower), format_rate(rate.upper)),
                     format_rate(milliseconds_per_step(measurement, steps)[rate.trial]),
                     by_rank(rank_rates(measurement, rate.trial), format_rate));
}

// All modes that a verdict needs.
bool has_all_modes(const BenchReport& report) {
  return std::ranges::all_of(enum_names(BenchMode{}),
                             [&](const auto& mode) { return find(report, mode.value) != nullptr; });
}

// Loading cannot speed up steps: the machine has become faster meanwhile.
bool outruns(const BenchRate& full, const BenchRate& synthetic) {
  return full.median > (1 + BenchRate::most_spread) * synthetic.median;
}

std::string noise_line(const BenchReport& report) {
  std::vector<std::string> noisy;
  for (const auto& measurement : report.measurements)
    if (const auto rate = rate_of(measurement); rate.is_noisy())
      noisy.push_back(fmt::format("{} ({})", percent(rate.spread()), name_of(measurement.mode)));
  const auto *const full = find(report, BenchMode::full), *const synthetic =
                                                              find(report, BenchMode::synthetic);
  if (full != nullptr && synthetic != nullptr && outruns(rate_of(*full), rate_of(*synthetic)))
    noisy.push_back(fmt::format("{} (full, faster than synthetic)",
                                percent(rate_of(*full).median / rate_of(*synthetic).median - 1)));
  if (noisy.empty()) return {};
  return fmt::format(
      "noisy: trials differ by {}{}; close other programs or raise --trials\n", join(noisy),
      has_all_modes(report) && !verdict_of(report) ? ", so what bounds the run can't be told" : "");
}

std::string device_memory_line(const BenchReport& report) {
  if (report.device_memory.empty()) return {};
  const auto text = [](const DeviceMemoryUse& use) {
    return fmt::format("{} of {}", bytes_text(static_cast<double>(use.peak_reserved_bytes)),
                       format_bytes(use.device.total_bytes));
  };
  return fmt::format("peak memory on devices by rank: {}\n", by_rank(report.device_memory, text));
}

// The most that a rank has.
HaloUse most_of(const std::vector<HaloUse>& halos) {
  HaloUse most;
  for (const auto& use : halos) {
    most.bytes = std::max(most.bytes, use.bytes);
    most.messages = std::max(most.messages, use.messages);
    most.seconds = std::max(most.seconds, use.seconds);
  }
  return most;
}

// Bytes of a batch on the rank that has the most.
std::int64_t bytes_by_formula(const BenchReport& report, std::int64_t SpatialBytes::*bytes) {
  const auto precision = find_named<Precision>(report.setup.precision).value_or(Precision::fp32);
  const auto most = most_spatial_bytes(report.sample_cut.value(), value_bytes(precision));
  return checked_multiply(most.*bytes, report.setup.batch_size);
}

std::string halo_lines(const BenchReport& report) {
  if (!report.sample_cut) return {};
  const auto& cut = *report.sample_cut;
  const auto whole = describe_whole_layers(cut);
  auto text = fmt::format("samples cut as [{}]; computed whole by all of a replica's ranks: {}\n",
                          fmt::join(cut.shape, ","), whole.empty() ? "nothing" : whole);
  for (const auto& measurement : report.measurements) {
    if (measurement.halos.empty() || measurement.mode == BenchMode::io) continue;
    const auto most = most_of(measurement.halos);
    const auto steps = mean_and_deviation(milliseconds_per_step(measurement, report.setup.steps));
    text += fmt::format(
        "halos, {}: per rank and step {} sent in {:g} messages, {:.3f} ms from asking until they "
        "are there ({})\n",
        name_of(measurement.mode), bytes_text(most.bytes), most.messages, 1e3 * most.seconds,
        percent(1e3 * most.seconds / steps.mean));
  }
  return text;
}

Json json_of(const HaloUse& use) {
  return {{"bytes", use.bytes}, {"messages", use.messages}, {"seconds", use.seconds}};
}

// A cut's numbers by formula.
Json json_of_cut(const BenchReport& report) {
  const auto& cut = report.sample_cut.value();
  return {{"cut", cut.shape},
          {"computed_whole", cut.whole_fraction()},
          {"halo_bytes_by_formula", bytes_by_formula(report, &SpatialBytes::halo)},
          {"kept_bytes_by_formula", bytes_by_formula(report, &SpatialBytes::kept)},
          {"peak_bytes_by_formula", bytes_by_formula(report, &SpatialBytes::peak)}};
}

std::string pipeline_line(const BenchReport& report) {
  if (!report.pipeline) return {};
  const auto& pipeline = *report.pipeline;
  return fmt::format(
      "idle in the pipeline ({}, {} ranks, {} micro-batches) by rank: {}; by the schedule {} with "
      "equal parts\n",
      name_of(pipeline.shape.schedule), pipeline.shape.ranks, pipeline.shape.micro_batches,
      by_rank(pipeline.idle_fractions, percent), percent(pipeline.ideal));
}

Json json_of(const BenchPipeline& pipeline) {
  return {{"schedule", name_of(pipeline.shape.schedule)},
          {"ranks", pipeline.shape.ranks},
          {"micro_batches", pipeline.shape.micro_batches},
          {"idle_share", mean_and_deviation(pipeline.idle_fractions).mean},
          {"idle_share_by_rank", pipeline.idle_fractions},
          {"ideal_idle_share", pipeline.ideal}};
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f} ms", 1e3 * seconds);
}

std::string text_of(const StepProfile& profile) {
  std::string text = fmt::format(
      "a step without communication: forward {}, backward {}, update {}; slowest rank "
      "{}, deviation {}\n",
      milliseconds(profile.forward_seconds), milliseconds(profile.backward_seconds),
      milliseconds(profile.optimizer_seconds), milliseconds(profile.slowest_seconds),
      milliseconds(profile.deviation_seconds));
  for (std::size_t index = 0; index < profile.buckets.size(); ++index) {
    const auto& bucket = profile.buckets[index];
    text += fmt::format("  bucket {}: {}, ready after {} of backward\n", index,
                        bytes_text(static_cast<double>(bucket.bytes)),
                        milliseconds(bucket.ready_seconds));
  }
  return text + "\n";
}

std::string row_of(const LayerTime& layer, std::size_t width) {
  const auto pass = [](double seconds, double least) {
    return fmt::format("{:>9.3f}  {:>9.3f}", 1e3 * seconds, 1e3 * least);
  };
  return fmt::format("{:<{}}  {}  {}\n", fmt::format("{} {}", layer.name, layer.kind), width,
                     pass(layer.forward_seconds, layer.forward_least),
                     pass(layer.backward_seconds, layer.backward_least));
}

// Layers with a hundredth of the step, in order; then the others together, and all.
std::string text_of(const LayerProfile& profile) {
  LayerTime others{.name = "others"}, all{.name = "all layers"};
  const auto add = [](const LayerTime& layer, LayerTime& to) {
    to.forward_seconds += layer.forward_seconds;
    to.forward_least += layer.forward_least;
    to.backward_seconds += layer.backward_seconds;
    to.backward_least += layer.backward_least;
  };
  for (const auto& layer : profile.layers) add(layer, all);
  const double step_seconds = all.forward_seconds + all.backward_seconds + profile.rest_seconds;
  std::vector<LayerTime> rows;
  std::size_t width = all.name.size() + 1;
  for (const auto& layer : profile.layers) {
    if (layer.forward_seconds + layer.backward_seconds < .01 * step_seconds) {
      add(layer, others);
    } else {
      rows.push_back(layer);
      width = std::max(width, layer.name.size() + 1 + layer.kind.size());
    }
  }
  auto text = fmt::format(
      "layers of rank 0 in ms, and the least that they could take at {:.0f} GFLOP/s, measured in\n"
      "products of matrices, and {}/s, in copies\n{:<{}}  {:>9}  {:>9}  {:>9}  {:>9}\n",
      1e-9 * profile.operations_per_second, bytes_text(profile.bytes_per_second), "", width,
      "forward", "least", "backward", "least");
  for (const auto& row : rows) text += row_of(row, width);
  text += row_of(others, width) + row_of(all, width);
  return text + fmt::format("the rest of a step: {}\n\n", milliseconds(profile.rest_seconds));
}

Json json_of(const LayerProfile& profile) {
  Json json{{"operations_per_second", profile.operations_per_second},
            {"bytes_per_second", profile.bytes_per_second},
            {"layers", Json::array()},
            {"rest_seconds", profile.rest_seconds}};
  for (const auto& layer : profile.layers)
    json["layers"].push_back({{"name", layer.name},
                              {"kind", layer.kind},
                              {"forward_seconds", layer.forward_seconds},
                              {"forward_least", layer.forward_least},
                              {"backward_seconds", layer.backward_seconds},
                              {"backward_least", layer.backward_least}});
  return json;
}

std::string table_of(const char* what, std::span<const CollectiveMeasurement::Point> points) {
  std::string text = fmt::format("{:<13}  {:>12}  {:>12}\n", what, "takes", "bytes/s");
  for (const auto& point : points)
    text += fmt::format("{:<13}  {:>12}  {:>12}\n", bytes_text(point.bytes),
                        milliseconds(point.seconds), bytes_text(point.bytes / point.seconds));
  return text + "\n";
}

Json json_of(const BenchMeasurement& measurement, std::int64_t steps) {
  const auto rate = rate_of(measurement);
  const auto milliseconds = milliseconds_per_step(measurement, steps);
  Json json{
      {"samples_per_second",
       {{"median", rate.median},
        {"lower_quartile", rate.lower},
        {"upper_quartile", rate.upper},
        {"trials", samples_per_second(measurement)}}},
      {"milliseconds_per_step", {{"median", milliseconds[rate.trial]}, {"trials", milliseconds}}},
      {"samples_per_second_by_rank", rank_rates(measurement, rate.trial)}};
  if (measurement.mode == BenchMode::io) return json;
  const auto shares = fractions_of(measurement);
  json["shares"] = {
      {"compute", shares.compute}, {"communication", shares.communication}, {"data", shares.data}};
  for (const auto& use : measurement.halos) json["halos_by_rank"].push_back(json_of(use));
  return json;
}

}  // namespace

std::vector<double> samples_per_second(const BenchMeasurement& measurement) {
  std::vector<double> rates;
  for (std::size_t trial = 0; trial < measurement.trials.front().size(); ++trial) {
    double samples = 0, seconds = 0;
    for (const auto& rank : measurement.trials) {
      samples += rank[trial].samples;
      seconds = std::max(seconds, rank[trial].seconds);
    }
    rates.push_back(samples / seconds);
  }
  return rates;
}

std::vector<double> milliseconds_per_step(const BenchMeasurement& measurement, std::int64_t steps) {
  std::vector<double> values;
  for (std::size_t trial = 0; trial < measurement.trials.front().size(); ++trial) {
    double seconds = 0;
    for (const auto& rank : measurement.trials) seconds = std::max(seconds, rank[trial].seconds);
    values.push_back(1e3 * seconds / static_cast<double>(steps));
  }
  return values;
}

BenchRate rate_of(const BenchMeasurement& measurement) {
  const auto rates = samples_per_second(measurement);
  std::vector<std::size_t> order(rates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t trial) { return rates[trial]; });
  const auto quarter = (order.size() - 1) / 4, middle = order[order.size() / 2];
  return {rates[middle], rates[order[quarter]], rates[order[order.size() - 1 - quarter]], middle};
}

StepFractions fractions_of(const BenchMeasurement& measurement) {
  const auto rates = samples_per_second(measurement);
  const auto middle = rate_of(measurement);
  double seconds = 0, data = 0, communication = 0;
  for (const auto& rank : measurement.trials) {
    for (std::size_t index = 0; index < rates.size(); ++index) {
      if (rates[index] < middle.lower || rates[index] > middle.upper) continue;
      const auto& trial = rank[index];
      seconds += trial.seconds;
      data += trial.data_seconds;
      communication += trial.communication_seconds;
    }
  }
  return {data / seconds, communication / seconds, (seconds - data - communication) / seconds};
}

std::optional<BenchVerdict> verdict_of(const BenchReport& report) {
  const auto* const io = find(report, BenchMode::io);
  const auto* const synthetic = find(report, BenchMode::synthetic);
  const auto* const full = find(report, BenchMode::full);
  if (io == nullptr || synthetic == nullptr || full == nullptr) return std::nullopt;
  const auto loading = rate_of(*io), computing = rate_of(*synthetic), both = rate_of(*full);
  const bool overlap = loading.lower < computing.upper && computing.lower < loading.upper;
  if (both.is_noisy() || outruns(both, computing) ||
      (overlap && (loading.is_noisy() || computing.is_noisy())))
    return std::nullopt;
  const auto shares = fractions_of(*full);
  const std::string rates = fmt::format(
      "the loader alone makes {} samples/s, training on a cached batch takes {}, both together {}",
      format_rate(loading.median), format_rate(computing.median), format_rate(both.median));
  if (loading.median < computing.median ||
      shares.data > std::max(shares.compute, shares.communication)) {
    return BenchVerdict{"data",
                        fmt::format("{}; more data.workers or faster storage may help", rates)};
  }
  if (shares.communication > shares.compute) {
    return BenchVerdict{"communication",
                        fmt::format("{} of a step waits for gradients of other ranks; larger "
                                    "batches per rank may help ({})",
                                    percent(shares.communication), rates)};
  }
  return BenchVerdict{"compute", fmt::format("{} of a step; {}", percent(shares.compute), rates)};
}

std::string to_text(const BenchReport& report) {
  const auto& setup = report.setup;
  std::string text = fmt::format(
      "{}: {} on {}, {} of {}, batch {} per {}, {}\n"
      "{} of {} steps after {} of warm-up\n\n"
      "{:<9}  {:>9}  {:>17}  {:>11}  {}\n",
      setup.configuration, setup.model, setup.data, counted(setup.ranks, "rank"),
      counted(setup.threads, "thread"), setup.batch_size, batch_owner(setup), setup.precision,
      counted(setup.trials, "trial"), setup.steps, setup.warmup, "", "samples/s", "middle half",
      "ms per step", "samples/s by rank");
  for (const auto& measurement : report.measurements) text += line_of(measurement, setup.steps);
  text += fmt::format("\n{}", noise_line(report));
  if (const auto* const full = find(report, BenchMode::full)) {
    const auto shares = fractions_of(*full);
    text +=
        fmt::format("of a full step: compute {}, waiting for gradients {}, for data {}\n",
                    percent(shares.compute), percent(shares.communication), percent(shares.data));
  }
  text += pipeline_line(report);
  if (report.profile) text += text_of(*report.profile);
  if (report.layers) text += text_of(*report.layers);
  if (const auto& collectives = report.collectives) {
    text += table_of("all-reduce of", collectives->points);
    if (!collectives->messages.empty()) text += table_of("message of", collectives->messages);
  }
  text += halo_lines(report);
  text += fmt::format("peak memory by rank: {}\n", by_rank(report.peak_bytes, bytes_text));
  if (report.sample_cut) {  // besides parameters, gradients and optimizer state
    const auto kept = bytes_by_formula(report, &SpatialBytes::kept);
    text += fmt::format("of it kept per rank for backward, by formula: {}\n",
                        bytes_text(static_cast<double>(kept)));
  }
  text += device_memory_line(report);
  if (const auto verdict = verdict_of(report))
    text += fmt::format("bound by {}: {}\n", verdict->by, verdict->why);
  return text;
}

Json to_json(const BenchReport& report) {
  const auto& setup = report.setup;
  Json json{{"configuration", setup.configuration},
            {"model", setup.model},
            {"data", setup.data},
            {"precision", setup.precision},
            {"n_ranks", setup.ranks},
            {"ranks_per_replica", setup.ranks_per_replica},
            {"virtual_ranks", setup.virtual_ranks},
            {"threads", setup.threads},
            {"batch_size", setup.batch_size},
            {"steps", setup.steps},
            {"warmup", setup.warmup},
            {"trials", setup.trials}};
  if (report.sample_cut) json["spatial"] = json_of_cut(report);
  for (const auto& measurement : report.measurements)
    json[std::string(name_of(measurement.mode))] = json_of(measurement, setup.steps);
  if (report.pipeline) json["pipeline"] = json_of(*report.pipeline);
  if (report.profile) json["profile"] = report.profile->to_json();
  if (report.layers) json["layers"] = json_of(*report.layers);
  if (report.collectives) json["collectives"] = report.collectives->to_json();
  json["peak_memory_bytes_by_rank"] = report.peak_bytes;
  for (const auto& use : report.device_memory) {
    json["device_memory_by_rank"].push_back({{"peak_allocated_bytes", use.peak_allocated_bytes},
                                             {"peak_reserved_bytes", use.peak_reserved_bytes},
                                             {"free_bytes", use.device.free_bytes},
                                             {"total_bytes", use.device.total_bytes}});
  }
  if (const auto verdict = verdict_of(report)) {
    json["bound_by"] = verdict->by;
    json["because"] = verdict->why;
  } else if (has_all_modes(report)) {
    json["bound_by"] = nullptr;
  }
  return json;
}

}  // namespace kolo
