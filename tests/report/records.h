#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kolo/report/run_record.h"

namespace kolo::testing {

// A curve with a value per epoch: epochs 1, 2, ..., of so many steps and seconds each.
inline Curve epoch_curve(const std::string& quantity, const std::string& part,
                         const std::vector<double>& values, double steps = 10, double seconds = 5,
                         double start = 1000) {
  Curve curve{quantity, part, false, {}};
  for (const double value : values) {
    const auto epoch = static_cast<double>(curve.points.size() + 1);
    curve.points.push_back({value, epoch, epoch * steps, start + epoch * seconds});
  }
  return curve;
}

// A run of kolo's with these curves.
inline RunRecord run_named(const std::string& name, std::vector<Curve> curves) {
  RunRecord run;
  run.name = name;
  run.source = "/results/" + name;
  run.writer = "kolo";
  run.is_finished = true;
  run.curves = std::move(curves);
  return run;
}

inline std::vector<double> column(const Curve* curve, double CurvePoint::*member) {
  std::vector<double> values;
  EXPECT_NE(curve, nullptr);
  if (curve == nullptr) return values;
  for (const CurvePoint& point : curve->points) values.push_back(point.*member);
  return values;
}

}  // namespace kolo::testing
