#include <algorithm>
#include <cmath>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "run/prediction.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// A cell of a table (RFC 4180).
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

// A file's name may hold any bytes.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_number(float value) {
  return std::isfinite(value) ? fmt::format("{:.7g}", value) : "null";
}

// A table for programs, or a list of objects.
class TextWriter final : public PredictionWriter {
 public:
  TextWriter(const fs::path& file, const PredictionForm& form, bool is_json)
      : aside_(file), form_(form), is_json_(is_json) {
    aside_.write(is_json ? "[\n" : head());
  }

  void add(std::span<const float> values) override {
    std::string text;
    for (; !values.empty(); values = values.subspan(static_cast<std::size_t>(form_.values))) {
      const auto row = values.first(static_cast<std::size_t>(form_.values));
      text += is_json_ ? object_of(row) : line_of(row);
      ++done_;
    }
    aside_.write(text);
  }

  void commit() override {
    if (is_json_) aside_.write("\n]\n");
    aside_.commit();
  }

 private:
  [[nodiscard]] std::string head() const {
    std::vector<std::string> cells;
    if (form_.file) cells.emplace_back("file");
    if (form_.has_classes) cells.insert(cells.end(), {"class", "probability"});
    for (const auto& column : form_.columns) cells.push_back(csv_cell(column));
    return join(cells, ",") + "\n";
  }

  [[nodiscard]] std::string line_of(std::span<const float> row) const {
    std::string line = form_.file ? csv_cell(form_.file(done_)) + "," : "";
    if (form_.has_classes) {
      const auto best = std::ranges::max_element(row) - row.begin();
      line += fmt::format("{},{:.7g},", csv_cell(form_.columns[static_cast<std::size_t>(best)]),
                          row[static_cast<std::size_t>(best)]);
    }
    return line + fmt::format("{:.7g}\n", fmt::join(row, ","));
  }

  [[nodiscard]] std::string object_of(std::span<const float> row) const {
    std::vector<std::string> members;
    if (form_.file) members.push_back("\"file\": " + json_text(form_.file(done_)));
    if (form_.has_classes) {
      const auto best = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
      std::vector<std::string> all;
      for (std::size_t i = 0; i < row.size(); ++i)
        all.push_back(json_text(form_.columns[i]) + ": " + json_number(row[i]));
      members.push_back("\"class\": " + json_text(form_.columns[best]));
      members.push_back("\"probability\": " + json_number(row[best]));
      members.push_back("\"probabilities\": {" + join(all) + "}");
    } else {
      for (const auto& [name, shape] : form_.arrays) {
        const auto count = static_cast<std::size_t>(checked_product<std::int64_t>(shape));
        std::vector<std::string> numbers;
        for (const float value : row.first(count)) numbers.push_back(json_number(value));
        row = row.subspan(count);
        members.push_back(json_text(name) + ": " +
                          (count == 1 ? numbers[0] : "[" + join(numbers) + "]"));
      }
    }
    return fmt::format("{}  {{{}}}", done_ > 0 ? ",\n" : "", join(members));
  }

  AtomicFile aside_;
  const PredictionForm& form_;
  bool is_json_;
  std::int64_t done_ = 0;
};

// Arrays of float32, [samples, ...].
class ArrayWriter final : public PredictionWriter {
 public:
  ArrayWriter(const fs::path& file, const PredictionForm& form, bool is_npy)
      : aside_(file), part_(unfinished_file(file)), form_(form) {
    auto arrays = form.arrays;
    for (auto& array : arrays) array.shape.insert(array.shape.begin(), form.samples);
    if (is_npy) {
      const auto head = npy_header_bytes(arrays.front().shape);
      aside_.write(head);
      offsets_ = {std::ssize(head)};
    } else {
      offsets_ = make_hdf5_arrays(part_, arrays);
    }
    file_ = FileDescriptor(::open(part_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file_.is_open()) throw Error(fmt::format("predict: cannot open {}", part_.string()));
  }

  void add(std::span<const float> values) override {
    const auto row = static_cast<std::size_t>(form_.values), rows = values.size() / row;
    std::size_t first = 0;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const auto count =
          static_cast<std::size_t>(checked_product<std::int64_t>(form_.arrays[i].shape));
      column_.clear();
      for (std::size_t sample = 0; sample < rows; ++sample) {
        const auto part = values.subspan(sample * row + first, count);
        column_.insert(column_.end(), part.begin(), part.end());
      }
      const auto bytes = std::as_bytes(std::span(column_));
      write_at(file_.get(), bytes, offsets_[i], part_);
      offsets_[i] += std::ssize(bytes);
      first += count;
    }
  }

  void commit() override {
    file_.close(part_);
    aside_.commit();
  }

 private:
  AtomicFile aside_;
  fs::path part_;
  const PredictionForm& form_;
  FileDescriptor file_;
  std::vector<std::int64_t> offsets_;  // of the next numbers of each array, in bytes
  std::vector<float> column_;          // numbers of one array
};

}  // namespace

std::unique_ptr<PredictionWriter> make_prediction_writer(const fs::path& file,
                                                         const PredictionForm& form) {
  const auto ending = file.extension();
  if (ending == ".csv" || ending == ".json")
    return std::make_unique<TextWriter>(file, form, ending == ".json");
  return std::make_unique<ArrayWriter>(file, form, ending == ".npy");
}

}  // namespace kolo
