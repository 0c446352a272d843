#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/train/observe/history.h"
#include "kolo/train/observe/study.h"

namespace kolo {

// A value of a curve and its places on the axes. Unknown ones are not_measured.
struct CurvePoint {
  double value = not_measured;
  double epoch = not_measured;  // epochs done; with fractions for single steps
  double step = not_measured;   // optimizer steps done
  double time = not_measured;   // seconds since 1970
  // Seconds of training until then, without pauses before a resumption.
  double elapsed = not_measured;
};

// Course of one quantity in a run. `quantity` is one of loss, accuracy, top_accuracy,
// learning_rate, samples_per_second, epoch_seconds, data_wait_seconds,
// exposed_communication_seconds.
struct Curve {
  std::string quantity;
  std::string split;               // training | validation; empty if there is only one
  bool by_step = false;            // a value every few steps, or one an epoch
  std::vector<CurvePoint> points;  // in order
};

// Tells by its first 4 KiB whether a file is one that kolo wrote earlier, and may be replaced
// without asking: it begins with `start` and has `mark`. A file that can't be read is none.
[[nodiscard]] bool is_own_file(const std::filesystem::path& file, std::string_view start,
                               std::string_view mark);

// Mark in the first bytes of drawings (draw_picture()), as a text of PNG.
inline constexpr std::string_view png_mark{"Software\0kolo", 13};

// A caption follows this in an international text of a PNG: a keyword, no compression, no language.
inline constexpr std::string_view png_caption_key{"Description\0\0\0\0\0", 16};

[[nodiscard]] bool is_drawing(const std::filesystem::path& file);

// Caption of a drawing's bytes; empty where there is none.
[[nodiscard]] std::string png_caption(std::string_view png);

// A run as reports show it.
struct RunRecord {
  std::string name;              // the folder's
  std::filesystem::path source;  // as the user gave it
  std::optional<int> ranks;
  std::optional<std::int64_t> parameters;
  bool is_finished = false;  // its summary is there
  std::vector<Curve> curves;
  StudyResults results;  // of the whole run
  // The resolved configuration, flattened ("optimizer.lr", "0.001"), in the file's order.
  std::vector<std::pair<std::string, std::string>> settings;
  std::string configuration;  // config.yaml as it stands; empty: none
  // How it was made, for people: {"command", "kolo train a.yaml"}, {"machine", ...}, ...
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::string> warnings;  // on files that could not be read
  // Drawings of kolo eval --pictures in pictures/ of the run's folder, by name.
  struct Picture {
    std::string caption;
    std::string png;
  };
  std::vector<Picture> pictures;

  // The value of a setting; empty where the configuration has none.
  [[nodiscard]] std::string setting(std::string_view name) const;
  // The curve, or null.
  [[nodiscard]] const Curve* find(std::string_view quantity, std::string_view split,
                                  bool by_step = false) const;
};

// At most about `limit` points of a curve: the smallest and the largest value of each of limit / 2
// stretches, in order, so that outliers stay. Values that are not finite are left out, except where
// a stretch has no others.
[[nodiscard]] std::vector<CurvePoint> thinned(std::span<const CurvePoint> points,
                                              std::size_t limit);

// Gives runs of the same name different ones: their sources, and numbers where these are the same.
void make_names_distinct(std::vector<RunRecord>& runs);

// Reads a run's folder or its history.json, with config.yaml, model.txt and run.json where they are
// beside it. A folder may also hold one run somewhere below.
//
// InputError, naming the path: nothing there, no run or several, or its history can't be read.
// Its `warnings` name files beside the history that can't be read.
[[nodiscard]] RunRecord read_run(const std::filesystem::path& path);

}  // namespace kolo
