#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kolo/nn/summary.h"

namespace kolo {

namespace {

// "1 234 567", as all numbers of kolo's
std::string grouped(std::int64_t number) {
  std::string text;
  for (; number >= 1000; number /= 1000) text = fmt::format(" {:03}{}", number % 1000, text);
  return fmt::format("{}{}", number, text);
}

using Row = std::array<std::string, 5>;

Row row_of(const LayerSummary& layer) {
  return {layer.name, layer.kind, fmt::format("{}", fmt::join(layer.output_shape, " x ")),
          layer.parameters == 0 ? "" : grouped(layer.parameters),
          layer.flops == 0 ? "" : grouped(layer.flops)};
}

}  // namespace

std::string to_text(const ModelSummary& summary) {
  std::vector<Row> rows = {{"layer", "operation", "output", "parameters", "FLOPs per sample"}};
  for (const LayerSummary& layer : summary.layers) rows.push_back(row_of(layer));
  rows.push_back({"total", "", "", grouped(summary.parameters), grouped(summary.flops)});

  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", row[0], widths[0], row[1],
                        widths[1], row[2], widths[2], row[3], widths[3], row[4], widths[4]);
  }
  text += fmt::format("{} trainable parameters, {} frozen, {} values in buffers\n",
                      grouped(summary.trainable_parameters),
                      grouped(summary.parameters - summary.trainable_parameters),
                      grouped(summary.buffer_elements));
  return text;
}

}  // namespace kolo
