#include "kolo/train/observe/history.h"

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "train/observe/json_fields.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto epoch_fields = [](auto& field, auto& record) {
  field("epoch", record.epoch);
  field("step", record.step);
  field.measured("loss", record.loss);
  field.measured("accuracy", record.accuracy);
  field.measured("val_loss", record.val_loss);
  field.measured("val_accuracy", record.val_accuracy);
  field.measured("top_accuracy", record.top_accuracy);
  field.measured("val_top_accuracy", record.val_top_accuracy);
  field.measured("lr", record.lr);
  field.measured("seconds", record.seconds);
  field.measured("samples_per_second", record.samples_per_second);
  field.measured("data_wait_seconds", record.data_wait_seconds);
  field.measured("exposed_communication_seconds", record.exposed_communication_seconds);
  field.measured("time", record.time);
};

constexpr auto step_fields = [](auto& field, auto& record) {
  field("step", record.step);
  field.measured("loss", record.loss);
  field.measured("accuracy", record.accuracy);
  field.measured("lr", record.lr);
  field.measured("samples_per_second", record.samples_per_second);
  field.measured("time", record.time);
};

constexpr auto checkpoint_fields = [](auto& field, auto& record) {
  field("step", record.step);
  field.measured("stall_seconds", record.stall_seconds);
  field.measured("waited_seconds", record.waited_seconds);
  field.measured("seconds", record.seconds);
  field.measured("time", record.time);
};

constexpr auto under_way_fields = [](auto& field, auto& epoch) {
  field("epoch", epoch.epoch);
  field("last_step", epoch.last_step);
};

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
  for (const auto& record : epochs_) document["epochs"].push_back(json_of(record, epoch_fields));
  for (const auto& record : steps_) document["steps"].push_back(json_of(record, step_fields));
  for (const auto& record : checkpoints_)
    document["checkpoints"].push_back(json_of(record, checkpoint_fields));
  if (epoch_under_way_) document["epoch_under_way"] = json_of(*epoch_under_way_, under_way_fields);
  document["summary"] = summary_;
  return document;
}

History History::from_json(const Json& document) {
  try {
    History history(json_value<int>(document, "n_ranks"));
    for (const auto& json : json_list(document, "epochs"))
      history.add(record_from<EpochRecord>(json, epoch_fields));
    for (const auto& json : list_if_there(document, "steps"))
      history.add(record_from<StepRecord>(json, step_fields));
    for (const auto& json : list_if_there(document, "checkpoints"))
      history.add(record_from<CheckpointRecord>(json, checkpoint_fields));
    if (document.contains("epoch_under_way"))
      history.begin(record_from<EpochUnderWay>(document["epoch_under_way"], under_way_fields));
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
