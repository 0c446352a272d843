#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kolo/report/figure.h"
#include "kolo/report/results_table.h"
#include "kolo/report/run_record.h"

namespace kolo::testing {

// A curve with a value per epoch: epochs 1, 2, ..., of so many steps and seconds each.
inline Curve epoch_curve(const std::string& quantity, const std::string& split,
                         const std::vector<double>& values, double steps = 10, double seconds = 5,
                         double start = 1000) {
  Curve curve{quantity, split, false, {}};
  for (const double value : values) {
    const auto epoch = static_cast<double>(curve.points.size() + 1);
    curve.points.push_back({value, epoch, epoch * steps, start + epoch * seconds, epoch * seconds});
  }
  return curve;
}

// A run of kolo's with these curves.
inline RunRecord run_named(const std::string& name, std::vector<Curve> curves) {
  RunRecord run;
  run.name = name;
  run.source = "/results/" + name;
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

inline std::vector<Figure> all_figures(const std::vector<FigureGroup>& groups) {
  std::vector<Figure> all;
  for (const auto& group : groups)
    all.insert(all.end(), group.figures.begin(), group.figures.end());
  return all;
}

inline const Figure& figure_named(const std::vector<Figure>& figures, const std::string& id) {
  const auto found = std::ranges::find(figures, id, &Figure::id);
  if (found == figures.end()) throw std::runtime_error("no figure " + id);
  return *found;
}

inline std::vector<std::string> titles_of(const ResultsTable& table) {
  std::vector<std::string> titles;
  for (const auto& column : table.columns) titles.push_back(column.title);
  return titles;
}

inline std::vector<std::string> texts_of(const ResultsTable::Row& row) {
  std::vector<std::string> texts;
  for (const auto& cell : row.cells) texts.push_back(cell.text);
  return texts;
}

// How often a part is in a text.
inline std::size_t count(const std::string& text, const std::string& split) {
  std::size_t found = 0;
  for (auto at = text.find(split); at != std::string::npos; at = text.find(split, at + 1)) ++found;
  return found;
}

}  // namespace kolo::testing
