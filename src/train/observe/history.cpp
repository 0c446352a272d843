#include "kolo/train/observe/history.h"

#include <fmt/format.h>

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
  field.measured("elapsed", record.elapsed);
};

constexpr auto step_fields = [](auto& field, auto& record) {
  field("step", record.step);
  field.measured("loss", record.loss);
  field.measured("accuracy", record.accuracy);
  field.measured("lr", record.lr);
  field.measured("samples_per_second", record.samples_per_second);
  field.measured("time", record.time);
  field.measured("elapsed", record.elapsed);
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

// One record a line, so that a long history can still be read and compared line by line.
std::string lines_of(const Json& records) {
  std::string text = "[";
  for (const auto& record : records)
    text += fmt::format("{}\n    {}", text.size() == 1 ? "" : ",", record.dump());
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
  JsonWriter<Json> field;
  field("n_ranks", n_ranks_);
  field.list("epochs", epochs_, epoch_fields);
  field.list_if_any("steps", steps_, step_fields);
  field.list_if_any("checkpoints", checkpoints_, checkpoint_fields);
  if (epoch_under_way_) field.record("epoch_under_way", *epoch_under_way_, under_way_fields);
  field("summary", summary_);
  return std::move(field.json);
}

History History::from_json(const Json& document) {
  const auto read = [&document](auto& field, History& history) {
    field("n_ranks", history.n_ranks_);
    field.list("epochs", history.epochs_, epoch_fields);
    field.list_if_any("steps", history.steps_, step_fields);
    field.list_if_any("checkpoints", history.checkpoints_, checkpoint_fields);
    if (document.contains("epoch_under_way"))
      field.record("epoch_under_way", history.epoch_under_way_.emplace(), under_way_fields);
    history.summary_ = document.value("summary", Json::object());
  };
  return document_from<History>("history", document, read);
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
