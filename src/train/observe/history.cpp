#include "kolo/train/observe/history.h"

#include <cmath>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "train/observe/json_numbers.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

template <typename Record>
struct Field {
  const char* name;
  double Record::*member;
};

constexpr Field<EpochRecord> epoch_fields[] = {
    {"loss", &EpochRecord::loss},
    {"accuracy", &EpochRecord::accuracy},
    {"val_loss", &EpochRecord::val_loss},
    {"val_accuracy", &EpochRecord::val_accuracy},
    {"top_accuracy", &EpochRecord::top_accuracy},
    {"val_top_accuracy", &EpochRecord::val_top_accuracy},
    {"lr", &EpochRecord::lr},
    {"seconds", &EpochRecord::seconds},
    {"samples_per_second", &EpochRecord::samples_per_second},
    {"data_wait_seconds", &EpochRecord::data_wait_seconds},
    {"exposed_communication_seconds", &EpochRecord::exposed_communication_seconds},
    {"time", &EpochRecord::time}};

constexpr Field<StepRecord> step_fields[] = {
    {"loss", &StepRecord::loss},
    {"accuracy", &StepRecord::accuracy},
    {"lr", &StepRecord::lr},
    {"samples_per_second", &StepRecord::samples_per_second},
    {"time", &StepRecord::time}};

constexpr Field<CheckpointRecord> checkpoint_fields[] = {
    {"stall_seconds", &CheckpointRecord::stall_seconds},
    {"waited_seconds", &CheckpointRecord::waited_seconds},
    {"seconds", &CheckpointRecord::seconds},
    {"time", &CheckpointRecord::time}};

std::span<const Field<EpochRecord>> fields_of(const EpochRecord& /*record*/) {
  return epoch_fields;
}
std::span<const Field<StepRecord>> fields_of(const StepRecord& /*record*/) {
  return step_fields;
}
std::span<const Field<CheckpointRecord>> fields_of(const CheckpointRecord& /*record*/) {
  return checkpoint_fields;
}

template <typename Record>
Json record_json(const Record& record) {
  constexpr bool is_epoch = std::is_same_v<Record, EpochRecord>;
  Json json;
  if constexpr (is_epoch) json["epoch"] = record.epoch;
  json["step"] = record.step;
  for (const auto& field : fields_of(record))
    json[field.name] = number_or_null(record.*field.member);
  return json;
}

template <typename Record>
Record record_from(const Json& json) {
  constexpr bool is_epoch = std::is_same_v<Record, EpochRecord>;
  Record record;
  if constexpr (is_epoch) record.epoch = json_value<std::int64_t>(json, "epoch");
  record.step = json_value<std::int64_t>(json, "step");
  for (const auto& field : fields_of(record))
    record.*field.member = number_or_unmeasured(json, field.name);
  return record;
}

Json list_if_there(const Json& document, const char* key) {
  return document.contains(key) ? json_list(document, key) : Json::array();
}

// One record a line, so that a long history can still be read and compared line by line.
std::string lines_of(const Json& records) {
  std::string text = "[";
  for (const auto& record : records) {
    text += fmt::format("{}\n    {}", text.size() == 1 ? "" : ",", record.dump());
  }
  return text + "\n  ]";
}

}  // namespace

void History::drop_after(std::int64_t step, std::int64_t epoch) {
  std::erase_if(epochs_, [=](const EpochRecord& record) {
    return record.step > step || record.epoch > epoch;
  });
  const auto is_after = [=](const auto& record) { return record.step > step; };
  std::erase_if(steps_, is_after);
  std::erase_if(checkpoints_, is_after);
  epoch_under_way_.reset();
  summary_ = Json::object();
}

Json History::to_json() const {
  Json document{{"n_ranks", n_ranks_}, {"epochs", Json::array()}};
  for (const auto& record : epochs_) document["epochs"].push_back(record_json(record));
  for (const auto& record : steps_) document["steps"].push_back(record_json(record));
  for (const auto& record : checkpoints_) document["checkpoints"].push_back(record_json(record));
  if (epoch_under_way_)
    document["epoch_under_way"] = {{"epoch", epoch_under_way_->epoch},
                                   {"last_step", epoch_under_way_->last_step}};
  document["summary"] = summary_;
  return document;
}

History History::from_json(const Json& document) {
  try {
    History history(json_value<int>(document, "n_ranks"));
    for (const auto& json : json_list(document, "epochs"))
      history.add(record_from<EpochRecord>(json));
    for (const auto& json : list_if_there(document, "steps"))
      history.add(record_from<StepRecord>(json));
    for (const auto& json : list_if_there(document, "checkpoints"))
      history.add(record_from<CheckpointRecord>(json));
    if (document.contains("epoch_under_way")) {
      const auto& json = document["epoch_under_way"];
      history.begin(
          {json_value<std::int64_t>(json, "epoch"), json_value<std::int64_t>(json, "last_step")});
    }
    history.summary_ = document.value("summary", Json::object());
    return history;
  } catch (const JsonError& error) {
    throw Error(fmt::format("history: malformed: {}", error.what()));
  }
}

void History::write(const std::filesystem::path& path) const {
  std::string text = "{";
  const Json document = to_json();
  for (const auto& [key, value] : document.items()) {
    const bool is_records = value.is_array() && !value.empty();
    text += fmt::format(
        "{}\n  \"{}\": {}", text.size() == 1 ? "" : ",", key,
        is_records ? lines_of(value) : value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  write_file_atomically(path, text + "\n}\n");
}

History History::read(const std::filesystem::path& path) {
  return read_document<History>(path, "rename or remove it to go on without it");
}

}  // namespace kolo
