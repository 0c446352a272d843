#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/file.h"
#include "kolo/observe/tensorboard.h"
#include "observe/event_records.h"
#include "tensorboard_event.pb.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (entry.is_regular_file() && name.starts_with(event_file_prefix))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// What stays of a file; none where all of it does.
std::optional<std::string> kept_records(const fs::path& file, std::int64_t step,
                                        const std::function<bool(std::string_view)>& is_undone) {
  const auto is_dropped = [&](const observe::tensorboard::Event& event) {
    if (event.step() != step) return event.step() > step && event.has_summary();
    const auto& values = event.summary().value();
    return std::any_of(values.begin(), values.end(),
                       [&](const auto& value) { return is_undone(value.tag()); });
  };
  EventRecordReader records(file);
  std::string kept;
  bool is_whole = true;
  observe::tensorboard::Event event;
  while (const auto message = records.next()) {
    if (event.ParseFromArray(message->data(), static_cast<int>(message->size())) &&
        is_dropped(event)) {
      is_whole = false;
    } else {
      append_event_record(kept, *message);
    }
  }
  return is_whole ? std::nullopt : std::optional(std::move(kept));
}

}  // namespace

void drop_events_after(const fs::path& folder, std::int64_t step,
                       const std::function<bool(std::string_view)>& is_undone) {
  for (const auto& file : event_files(folder)) {
    const auto kept = kept_records(file, step, is_undone);
    if (!kept) continue;
    // Under a name that nobody takes for an event file, should this process end amid it.
    const auto aside = folder / ".curves.part";
    write_file_atomically(aside, *kept);
    rename_durably(aside, file);
  }
}

}  // namespace kolo
