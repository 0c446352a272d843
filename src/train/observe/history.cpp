#include "kolo/train/observe/history.h"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

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

// Left out of the file where they were not measured.
constexpr Field<EpochRecord> optional_fields[] = {
    {"device_joules", &EpochRecord::device_joules},
    {"device_watts", &EpochRecord::device_watts},
    {"device_utilization", &EpochRecord::device_utilization},
    {"device_megahertz", &EpochRecord::device_megahertz},
    {"device_celsius", &EpochRecord::device_celsius},
    {"gradient_noise_scale", &EpochRecord::gradient_noise_scale},
    {"bad_samples", &EpochRecord::bad_samples},
    {"val_bad_samples", &EpochRecord::val_bad_samples}};

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

template <typename Record>
void write_fields(Json& json, const Record& record, std::span<const Field<Record>> fields) {
  for (const auto& field : fields) {
    const double value = record.*field.member;
    json[field.name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  }
}

template <typename Record>
void read_fields(const Json& json, Record& record, std::span<const Field<Record>> fields) {
  for (const auto& field : fields) {
    const auto value = json.find(field.name);
    if (value == json.end() || value->is_null()) continue;
    record.*field.member = json_value<double>(json, field.name);
  }
}

Json json_of(const EpochRecord& record) {
  Json json{{"epoch", record.epoch}, {"step", record.step}};
  write_fields<EpochRecord>(json, record, epoch_fields);
  for (const auto& field : optional_fields) {
    const double value = record.*field.member;
    if (std::isfinite(value)) json[field.name] = value;
  }
  return json;
}

Json json_of(const StepRecord& record) {
  Json json{{"step", record.step}};
  write_fields<StepRecord>(json, record, step_fields);
  return json;
}

Json json_of(const CheckpointRecord& record) {
  Json json{{"step", record.step}};
  write_fields<CheckpointRecord>(json, record, checkpoint_fields);
  return json;
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
  for (const auto& record : epochs_) document["epochs"].push_back(json_of(record));
  if (!steps_.empty()) document["steps"] = Json::array();
  for (const auto& record : steps_) document["steps"].push_back(json_of(record));
  if (!checkpoints_.empty()) document["checkpoints"] = Json::array();
  for (const auto& record : checkpoints_) document["checkpoints"].push_back(json_of(record));
  if (epoch_under_way_)
    document["epoch_under_way"] = {{"epoch", epoch_under_way_->epoch},
                                   {"last_step", epoch_under_way_->last_step}};
  document["summary"] = summary_;
  return document;
}

History History::from_json(const Json& document) {
  try {
    History history(json_value<int>(document, "n_ranks"));
    for (const auto& json : json_list(document, "epochs")) {
      EpochRecord record;
      record.epoch = json_value<std::int64_t>(json, "epoch");
      record.step = json_value<std::int64_t>(json, "step");
      read_fields<EpochRecord>(json, record, epoch_fields);
      read_fields<EpochRecord>(json, record, optional_fields);
      history.add(record);
    }
    for (const auto& json : list_if_there(document, "steps")) {
      StepRecord record;
      record.step = json_value<std::int64_t>(json, "step");
      read_fields<StepRecord>(json, record, step_fields);
      history.add(record);
    }
    for (const auto& json : list_if_there(document, "checkpoints")) {
      CheckpointRecord record;
      record.step = json_value<std::int64_t>(json, "step");
      read_fields<CheckpointRecord>(json, record, checkpoint_fields);
      history.add(record);
    }
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
  constexpr auto advice = "rename or remove it to go on without it";
  const Json document = read_json_file(path, advice);
  try {
    return from_json(document);
  } catch (const Error& error) {
    throw InputError(fmt::format("{}: {}; {}", path.string(), error.what(), advice));
  }
}

}  // namespace kolo
