#include "kolo/tools/timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"
#include "kolo/layout/pipeline_schedule.h"
#include "kolo/report/figure.h"
#include "kolo/report/own_files.h"
#include "tools/timeline_events.h"

namespace kolo {

namespace {

// Work of a thread of a rank for a while.
struct TimelineSpan {
  int rank = 0;
  std::int64_t thread = 0;
  std::string name;
  Interval time;
  int depth = 0;  // how many other spans of its row it lies in
};

// One step, as all ranks did it.
struct TimelineStep {
  std::int64_t number = 0;
  Interval time;                    // of the first and the last rank
  std::vector<TimelineSpan> spans;  // those that touch it, in the order of the file
  std::map<std::pair<int, std::int64_t>, std::string> thread_names;  // by rank and thread
};

using Json = nlohmann::json;

// "update bucket 3": the number is an argument of the event.
std::string name_of(const Json& event) {
  const auto name = event.value("name", "");
  const auto arguments = event.value("args", Json::object());
  const auto bucket = arguments.find("bucket");
  return bucket == arguments.end() ? name : fmt::format("{} {}", name, bucket->dump());
}

// See timeline_picture().
TimelineStep read_timeline_step(const std::filesystem::path& file, std::int64_t step) {
  std::map<std::int64_t, Interval> steps;
  for_each_step(file, [&](const Json& event, std::int64_t number) {
    const auto time = interval_of(event);
    auto& all = steps.try_emplace(number, time).first->second;
    all = {std::min(all.begin, time.begin), std::max(all.end, time.end)};
  });
  if (steps.empty())
    throw InputError(
        fmt::format("timeline: {} tells of no steps; expected the timeline.json of a "
                    "run, or what kolo timeline makes",
                    file.string()));
  const auto middle = std::next(steps.begin(), static_cast<std::ptrdiff_t>(steps.size() / 2));
  const auto found = step == 0 ? middle : steps.find(step);
  if (found == steps.end())
    throw InputError(fmt::format("timeline: {} has no step {}; it has {} to {}", file.string(),
                                 step, steps.begin()->first, steps.rbegin()->first));
  TimelineStep result{found->first, found->second, {}, {}};
  const auto all = [](std::string_view) { return true; };
  for_each_event(file, all, [&](const Json& json) {
    const int rank = json["pid"].get<int>();
    const auto thread = json.value("tid", std::int64_t{0});
    const auto kind = json["ph"].get<std::string>();
    if (kind == "M" && json.value("name", "") == "thread_name")
      result.thread_names[{rank, thread}] = json["args"].value("name", "");
    if (kind != "X") return;
    const auto time = interval_of(json);
    if (time.end > result.time.begin && time.begin < result.time.end)
      result.spans.push_back({rank, thread, name_of(json), time});
  });
  return result;
}

constexpr double picture_width = 960, left_margin = 150, right_margin = 16,
                 top_margin = 44;  // pixels
constexpr double bar_height = 20, row_gap = 10, character_width = 6.2;
constexpr double swatch = 12, legend_line = 18;

// One thread of one rank.
struct Row {
  std::string label;
  std::vector<TimelineSpan> spans;
  int depth = 1;  // spans below each other
};

std::string escaped(const std::string& text) {
  static const std::map<char, std::string_view> names{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string safe;
  for (const char letter : text) {
    const auto name = names.find(letter);
    safe += name == names.end() ? std::string_view(&letter, 1) : name->second;
  }
  return safe;
}

// Look of a kind of spans.
struct SpanKind {
  std::string description;  // as the legend has it
  std::string colour;
  bool is_dark = false;  // what is written on it is white

  friend bool operator==(const SpanKind&, const SpanKind&) = default;
};

// Kind by the beginning of a span's name: the first that fits counts; everything fits the last.
struct NamedKind {
  std::string_view beginning, description, colour;
  bool is_dark = false;
};

constexpr NamedKind named_kinds[] = {
    {"step", "step", "#e4e4e4"},
    {"forward", "forward", run_palette[0].light, true},
    {"backward", "backward", run_palette[5].light},
    {"data wait", "waiting for data", run_palette[7].light, true},
    {"wait", "waiting for other ranks", colour_at(communication_colour).light, true},
    {"update", "update of parameters", run_palette[2].light, true},
    {"bucket", "all-reduce of a bucket", run_palette[4].light},
    {"halo", "halo", run_palette[3].light, true},
    {"", "other", colour_at(ideal_colour).light}};

// Passes of a pipeline have their micro-batch's colour, the backward ones a lighter one.
SpanKind kind_of(const std::string& name) {
  if (const auto pass = pipeline_pass_named(name)) {
    const auto& colour = colour_at(run_colour(static_cast<std::size_t>(pass->micro_batch)));
    const bool is_forward = pass->work == PipelineWork::forward;
    return {fmt::format("micro-batch {} {}", pass->micro_batch, name_of(pass->work)),
            std::string(is_forward ? colour.light : colour.dark), is_forward};
  }
  const auto& named = *std::ranges::find_if(named_kinds, [&](const NamedKind& kind) {
    const bool is_step_itself = kind.beginning == "step";  // "step agreement" is none
    return is_step_itself ? name == "step" : name.starts_with(kind.beginning);
  });
  return {std::string(named.description), std::string(named.colour), named.is_dark};
}

// Text on a span: its name, or where that doesn't fit the number of a pass's micro-batch, or
// nothing.
std::string label_of(const std::string& name, double length) {
  const auto fits = [length](const std::string& text) {
    return character_width * static_cast<double>(text.size()) + 6 <= length;
  };
  if (fits(name)) return name;
  const auto pass = pipeline_pass_named(name);
  const auto number = pass ? std::to_string(pass->micro_batch) : std::string();
  return fits(number) ? number : std::string();
}

// Spans that begin earlier or, at once, last longer, lie above those within them.
Row placed(std::vector<TimelineSpan> spans, std::string label) {
  std::ranges::sort(spans, [](const TimelineSpan& one, const TimelineSpan& other) {
    return std::pair(one.time.begin, -one.time.end) < std::pair(other.time.begin, -other.time.end);
  });
  Row row{std::move(label), std::move(spans), 1};
  constexpr double rounding = 0.01;  // of times in the file, in microseconds
  std::vector<double> ends;          // of the spans that are open
  for (auto& span : row.spans) {
    while (!ends.empty() && ends.back() <= span.time.begin + rounding) ends.pop_back();
    span.depth = static_cast<int>(ends.size());
    ends.push_back(span.time.end);
    row.depth = std::max(row.depth, span.depth + 1);
  }
  return row;
}

std::vector<Row> rows_of(const TimelineStep& step) {
  std::map<std::pair<int, std::int64_t>, std::vector<TimelineSpan>> by_thread;
  for (const auto& span : step.spans) by_thread[{span.rank, span.thread}].push_back(span);
  std::vector<Row> rows;
  for (auto& [place, spans] : by_thread) {
    const auto name = step.thread_names.find(place);
    rows.push_back(placed(std::move(spans), fmt::format("rank {}, {}", place.first,
                                                        name == step.thread_names.end()
                                                            ? fmt::format("thread {}", place.second)
                                                            : name->second)));
  }
  return rows;
}

// 1, 2 or 5 times a power of ten: about eight ticks.
double tick_of(double length) {
  const double power = std::pow(10, std::floor(std::log10(length / 8)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (length / (factor * power) <= 10) return factor * power;
  return 10 * power;
}

// One kind's place in the legend.
struct LegendEntry {
  SpanKind kind;
  double x, y;  // y: from the legend's top
};

// Kinds that the rows have, in the order of the table above, then micro-batches'.
std::vector<SpanKind> kinds_of(const std::vector<Row>& rows) {
  std::vector<SpanKind> there, kinds;
  std::map<std::pair<int, PipelineWork>, SpanKind> passes;
  for (const auto& row : rows) {
    for (const auto& span : row.spans) {
      const auto kind = kind_of(span.name);
      if (const auto pass = pipeline_pass_named(span.name))
        passes.try_emplace({pass->micro_batch, pass->work}, kind);
      else if (std::ranges::find(there, kind) == there.end())
        there.push_back(kind);
    }
  }
  for (const auto& named : named_kinds) {
    const auto found = std::ranges::find(there, named.description, &SpanKind::description);
    if (found != there.end()) kinds.push_back(*found);
  }
  for (auto& [pass, kind] : passes) kinds.push_back(std::move(kind));
  return kinds;
}

// In lines as wide as the picture.
std::vector<LegendEntry> legend_of(const std::vector<Row>& rows) {
  std::vector<LegendEntry> legend;
  double x = left_margin, y = 0;
  for (auto& kind : kinds_of(rows)) {
    const double length =
        swatch + character_width * static_cast<double>(kind.description.size()) + 26;
    if (x + length > picture_width && x > left_margin) {
      x = left_margin;
      y += legend_line;
    }
    legend.push_back({std::move(kind), x, y});
    x += length;
  }
  return legend;
}

class Drawing {
 public:
  // `more_left`: what labels need beyond their usual room.
  Drawing(const TimelineStep& step, double height, double more_left)
      : step_(step), height_(height), more_left_(more_left) {}

  void axis() {
    const double length = (step_.time.end - step_.time.begin) / 1e3;
    const double tick = tick_of(length);
    for (double time = 0; time <= length; time += tick) {
      const double x = x_of(step_.time.begin + 1e3 * time);
      text_ += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\" "
          "stroke=\"#ddd\"/>\n<text x=\"{0:.1f}\" y=\"{3}\" "
          "text-anchor=\"middle\">{4:g}</text>\n",
          x, top_margin - 4, height_ - 8, top_margin - 10, time);
    }
    text_ += fmt::format("<text x=\"{}\" y=\"16\" font-weight=\"bold\">step {}: {:.3g} ms</text>\n",
                         left_margin, step_.number, length);
    text_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">ms</text>\n",
                         left_margin - 12, top_margin - 10);
  }

  // Returns where the next row begins.
  [[nodiscard]] double row(const Row& row, double y) {
    text_ += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                         left_margin - 12, y + bar_height - 6, escaped(row.label));
    for (const auto& each : row.spans) span(each, y + bar_height * each.depth);
    return y + bar_height * row.depth + row_gap;
  }

  void legend(const std::vector<LegendEntry>& entries) {
    for (const auto& [kind, x, below] : entries) {
      const double y = height_ + below;
      text_ += fmt::format(
          "<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2}\" height=\"{2}\" fill=\"{3}\"/>\n"
          "<text x=\"{4:.1f}\" y=\"{5:.1f}\">{6}</text>\n",
          x, y, swatch, kind.colour, x + swatch + 6, y + swatch - 2, kind.description);
    }
    if (!entries.empty()) height_ += entries.back().y + legend_line + row_gap / 2;
  }

  [[nodiscard]] std::string finish() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"{2:.0f} 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\" "
        "fill=\"#333\">\n<rect x=\"{2:.0f}\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{3}"
        "</svg>\n",
        picture_width + more_left_, height_, -more_left_, text_);
  }

 private:
  [[nodiscard]] double x_of(double time) const {
    const double share = (time - step_.time.begin) / (step_.time.end - step_.time.begin);
    return left_margin + std::clamp(share, 0.0, 1.0) * (picture_width - left_margin - right_margin);
  }

  void span(const TimelineSpan& span, double y) {
    const auto& name = span.name;
    const auto& [begin, end] = span.time;
    const auto kind = kind_of(name);
    // The shortest can be seen too: they have no edge, which would cover them.
    const double x = x_of(begin), length = std::max(1.0, x_of(end) - x);
    text_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" "
        "fill=\"{}\"{}><title>{} {:.3g} ms"
        "</title></rect>\n",
        x, y, length, bar_height - 2, kind.colour,
        length > 2 ? " stroke=\"#fff\" stroke-width=\"0.5\"" : "", escaped(name),
        (end - begin) / 1e3);
    const auto label = label_of(name, length);
    if (label.empty()) return;
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", x + 4,
                         y + bar_height - 7, kind.is_dark ? "#fff" : "#222", escaped(label));
  }

  const TimelineStep& step_;
  double height_, more_left_;
  std::string text_;
};

}  // namespace

std::string timeline_picture(const std::filesystem::path& file, std::int64_t step) {
  const auto read = read_timeline_step(file, step);
  const auto rows = rows_of(read);
  double height = top_margin, more_left = 0;
  for (const auto& row : rows) {
    height += bar_height * row.depth + row_gap;
    const auto letters = static_cast<double>(row.label.size());
    more_left = std::max(more_left, character_width * letters + 20 - left_margin);
  }
  Drawing drawing(read, height, more_left);
  drawing.axis();
  double y = top_margin;
  for (const auto& row : rows) y = drawing.row(row, y);
  drawing.legend(legend_of(rows));
  return marked_svg(drawing.finish());
}

}  // namespace kolo
