#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "kolo/base/error.h"
#include "kolo/kolo.h"
#include "kolo/online/online_network.h"

// Reports into the program's structs, which may be those of an older header, with fewer numbers.
namespace kolo::bindings {

// InputError for a struct whose size was not set; null is nobody's.
template <typename Report>
void check_report(const Report* report) {
  if (report != nullptr && report->size < static_cast<std::int64_t>(2 * sizeof(std::int64_t)))
    throw InputError("report: size is " + std::to_string(report->size) + "; expected sizeof, " +
                     std::to_string(sizeof(Report)));
}

inline kolo_tick_report in_c(const TickReport& done) {
  kolo_tick_report report{};
  report.steps = done.steps;
  report.all_steps = done.all_steps;
  report.loss = done.loss;
  report.learning_rate = done.learning_rate;
  report.version = done.version;
  report.arrivals = done.arrivals;
  report.stored = done.stored;
  report.skipped = done.skipped;
  report.waiting_for = done.waiting_for;
  return report;
}

inline kolo_push_report in_c(const PushReport& done) {
  kolo_push_report report{};
  report.taken = done.taken;
  report.refused = done.refused;
  report.dropped = done.dropped;
  report.not_finite = done.not_finite;
  return report;
}

// As much as the program's struct has room for.
template <typename Done, typename Report>
void write_report(const Done& done, Report* report) {
  if (report == nullptr) return;
  auto filled = in_c(done);
  filled.size = report->size;
  const auto room = std::min<std::size_t>(static_cast<std::size_t>(report->size), sizeof filled);
  std::memcpy(report, &filled, room);
}

}  // namespace kolo::bindings
