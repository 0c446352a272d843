#include "kolo/train/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/safetensors_header.h"

namespace kolo {

int choose_shards(std::uint64_t bytes, int ranks) {
  const auto whole = bytes / bytes_of_a_shard;
  const auto most = static_cast<std::uint64_t>(std::clamp(ranks, 1, most_shards));
  return static_cast<int>(std::clamp<std::uint64_t>(whole, 1, most));
}

std::vector<int> plan_shards(std::span<const std::uint64_t> bytes, int shards,
                             std::uint64_t first) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::uint64_t> load(static_cast<std::size_t>(std::max(shards, 1)), 0);
  load.front() = first;
  std::vector<int> plan(bytes.size(), 0);
  for (const auto index : order) {
    const auto least = std::ranges::min_element(load);
    *least += bytes[index];
    plan[index] = static_cast<int>(least - load.begin());
  }
  return plan;
}

namespace {

// A folder that is removed again unless it has been renamed to its final name.
class AsideFolder {
 public:
  explicit AsideFolder(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code error;
    if (!std::filesystem::create_directory(path_, error) || error)
      throw Error(fmt::format("checkpoint: cannot make the folder {}: {}", path_.string(),
                              error ? error.message() : "it exists"));
  }
  AsideFolder(const AsideFolder&) = delete;
  AsideFolder& operator=(const AsideFolder&) = delete;
  ~AsideFolder() {
    if (is_kept_) return;
    try {
      remove_own_files(path_);
    } catch (const std::exception&) {  // a destructor has nobody to tell; the next save tries again
    }
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void keep_as(const std::filesystem::path& name) {
    rename_durably(path_, name);
    is_kept_ = true;
  }

 private:
  std::filesystem::path path_;
  bool is_kept_ = false;
};

void make_folder(const CheckpointOptions& options) {
  const auto& folder = options.folder;
  std::error_code error;
  const bool is_new = options.makes_folders_above
                          ? std::filesystem::create_directories(folder, error)
                          : std::filesystem::create_directory(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    throw Error(fmt::format("checkpoint: cannot make the folder {}: {}", folder.string(),
                            error ? error.message() : "there is a file of that name"));
  if (is_new) {
    const auto above = std::filesystem::absolute(folder).lexically_normal().parent_path();
    flush_to_disk(above);
  }
}

// This writer's shard.
std::vector<Manifest::File> write_tensors(const std::filesystem::path& folder,
                                          const Checkpoint& checkpoint, const ShardWriter& writer) {
  std::vector<Manifest::File> files;
  const auto write = [&](std::string_view part, const std::vector<NamedTensor>& tensors) {
    const auto name = tensors_file_name(part, writer.index, writer.count);
    const auto written = write_safetensors(folder / name, tensors);
    files.push_back({name, written.size, written.crc32});
  };
  write(model_stem, checkpoint.model);
  write(optimizer_stem, checkpoint.optimizer);
  return files;
}

Manifest::File write_state(const std::filesystem::path& folder, std::int64_t step,
                           nlohmann::json state) {
  state["step"] = step;
  try {
    const auto text = state.dump(2) + "\n";
    write_file_atomically(folder / state_file_name, text);
    return {state_file_name, text.size(), checksum(0, std::as_bytes(std::span(text)))};
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("checkpoint: the state cannot be written as JSON: {}", in_plain_words(error)));
  }
}

// Report of a writer: its files, or what is wrong.
std::string note_of(const std::vector<Manifest::File>& files, const std::string& problem = {}) {
  nlohmann::ordered_json note{{"problem", problem}, {"files", nlohmann::ordered_json::array()}};
  for (const auto& file : files) note["files"].push_back(to_json(file));
  return note.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Files of all writers. Throws the first writer's problem.
std::vector<Manifest::File> files_of(const std::vector<std::string>& notes) {
  std::vector<Manifest::File> files;
  for (std::size_t index = 0; index < notes.size(); ++index) {
    const auto note = nlohmann::json::parse(notes[index]);
    if (const auto problem = json_value<std::string>(note, "problem"); !problem.empty())
      throw Error(fmt::format("checkpoint: shard {} of {} is not written: {}", index + 1,
                              notes.size(), problem));
    for (const auto& file : json_list(note, "files")) files.push_back(file_from_json(file));
  }
  return files;
}

// Does this writer's part of the work and tells all writers how it went; `work` gives the files it
// wrote. Throws its own Error, or that another writer failed.
template <typename Work>
std::vector<Manifest::File> together(const ShardWriter& writer, const Work& work) {
  if (writer.count == 1) return work();
  std::vector<Manifest::File> files;
  std::exception_ptr failure;
  std::string problem;
  try {
    files = work();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    problem = error.what();
  }
  const auto notes = writer.exchange(note_of(files, problem));
  if (failure) std::rethrow_exception(failure);
  return files_of(notes);
}

// Files in the manifest's order, which is not that of the notes.
std::vector<Manifest::File> in_order(std::vector<Manifest::File> files) {
  std::ranges::stable_partition(
      files, [](const Manifest::File& file) { return file.name.starts_with(model_stem); });
  return files;
}

nlohmann::json read_state(const std::filesystem::path& path, std::int64_t step) {
  try {
    auto state = read_json(path);
    const auto own = json_value<std::int64_t>(state, "step");
    if (own != step)
      throw Error(fmt::format("checkpoint: {} is of step {}, its folder of step {}", path.string(),
                              own, step));
    return state;
  } catch (const JsonError& error) {
    throw Error(fmt::format("checkpoint: {} is malformed: {}", path.string(), error.what()));
  }
}

std::vector<NamedTensor> read_tensors(const std::filesystem::path& folder,
                                      const Manifest::File& file, CheckpointReading reading) {
  std::vector<NamedTensor> tensors;
  if (reading == CheckpointReading::checked) verify_checksum(folder, file);
  if (reading != CheckpointReading::whole) {
    for (const auto& entry : list_safetensors(folder / file.name).tensors) {
      require_readable(folder / file.name, entry);
      const auto options = torch::TensorOptions().dtype(entry.dtype).device(torch::kMeta);
      tensors.push_back({entry.name, torch::empty(entry.shape, options)});
    }
    return tensors;
  }
  std::uint32_t crc32 = 0;
  try {
    tensors = read_safetensors(folder / file.name, &crc32);
  } catch (const Error&) {
    verify_checksum(folder, file);  // that it is not what was written says more
    throw;
  }
  require_checksum(folder, file, crc32);
  return tensors;
}

// The manifest of a folder that looks complete; Error where it doesn't.
Manifest inspect(const StepFolder& folder) {
  auto manifest = read_manifest(folder.path);
  if (manifest.step != folder.step)
    throw Error(fmt::format("checkpoint: the manifest in {} is of step {}", folder.path.string(),
                            manifest.step));
  verify_sizes(folder.path, manifest);
  return manifest;
}

// Checkpoints of a folder, newest first.
struct Survey {
  std::vector<CheckpointStore::Entry> whole;
  std::vector<CheckpointStore::Damaged> damaged;
};

// A step may have two folders, of which one that is whole counts alone.
Survey survey(const std::filesystem::path& parent) {
  Survey found;
  for (const auto& folder : step_folders(parent)) {
    if (!found.whole.empty() && found.whole.back().step == folder.step) continue;
    try {
      found.whole.push_back({folder.path, folder.step, inspect(folder).is_best});
    } catch (const Error& error) {
      found.damaged.push_back({folder.path, folder.step, error.what()});
    }
  }
  return found;
}

// Removes checkpoints up to the saved one, but for the newest keep_last and the best. `all` is
// newest first.
void remove_old(const std::filesystem::path& parent, std::int64_t saved_step, int keep_last,
                const std::vector<CheckpointStore::Entry>& all) {
  std::set<std::filesystem::path> kept;
  int recent = 0;
  bool has_best = false;
  for (const auto& entry : all) {
    if (entry.step > saved_step) continue;
    const bool is_best = entry.is_best && !has_best;
    has_best = has_best || is_best;
    if (recent++ < keep_last || is_best) kept.insert(entry.path);
  }
  // Nothing goes as long as the checkpoint that was just written can't be found again.
  if (!kept.contains(parent / step_name(saved_step))) return;
  for (const auto& folder : step_folders(parent))
    if (folder.step <= saved_step && !kept.contains(folder.path)) remove_checkpoint(folder.path);
}

}  // namespace

CheckpointStore::CheckpointStore(CheckpointOptions options) : options_(std::move(options)) {
  if (options_.keep_last < 1)
    throw InputError(
        fmt::format("checkpoint: keep_last is {}, expected at least 1", options_.keep_last));
  if (options_.folder.empty()) throw InputError("checkpoint: no folder given");
}

std::filesystem::path CheckpointStore::save(std::int64_t step, const Checkpoint& checkpoint,
                                            bool is_best, const ShardWriter& writer) {
  const auto& parent = options_.folder;
  const auto target = parent / step_name(step);
  std::optional<AsideFolder> aside;
  (void)together(writer, [&]() -> std::vector<Manifest::File> {
    if (writer.index > 0) return {};
    make_folder(options_);
    remove_leftovers(parent);
    aside.emplace(parent / aside_name(step));
    return {};
  });
  auto files = together(
      writer, [&] { return write_tensors(parent / aside_name(step), checkpoint, writer); });
  if (writer.index > 0) return target;

  Manifest manifest{step, is_best, writer.count, in_order(std::move(files))};
  manifest.files.push_back(write_state(aside->path(), step, checkpoint.state));
  write_manifest(aside->path(), manifest);
  if (std::filesystem::exists(target) && !has_manifest(target)) move_out_of_the_way(target);
  if (std::filesystem::exists(target)) {
    const auto replaced = parent / replaced_name(step);
    rename_durably(target, replaced);
    aside->keep_as(target);
    remove_checkpoint(replaced);
  } else {
    aside->keep_as(target);
  }
  remove_old(parent, step, options_.keep_last, list());
  return target;
}

std::vector<CheckpointStore::Entry> CheckpointStore::list() const {
  return survey(options_.folder).whole;
}

std::vector<CheckpointStore::Damaged> CheckpointStore::damaged() const {
  return survey(options_.folder).damaged;
}

std::optional<CheckpointStore::Entry> CheckpointStore::best() const {
  for (const auto& entry : list())
    if (entry.is_best) return entry;
  return std::nullopt;
}

std::optional<LoadedCheckpoint> CheckpointStore::load_newest(
    const std::function<void(const std::string&)>& warn, CheckpointReading reading) const {
  for (const auto& folder : step_folders(options_.folder)) {
    try {
      return load(folder.path, reading);
    } catch (const Error& error) {
      warn(fmt::format("checkpoint: passing over {}, which is damaged: {}", folder.path.string(),
                       error.what()));
    }
  }
  return std::nullopt;
}

bool CheckpointStore::holds_one(const std::function<void(const std::string&)>& warn) const {
  return load_newest(warn, CheckpointReading::checked).has_value();
}

LoadedCheckpoint CheckpointStore::load(const std::filesystem::path& path,
                                       CheckpointReading reading) {
  const auto folder = parse_folder(path);
  if (!folder)
    throw Error(fmt::format("checkpoint: {} is not a checkpoint, expected a folder step-NNNNNNNN",
                            path.string()));
  LoadedCheckpoint loaded{path, folder->step, {}};
  for (const auto& file : inspect(*folder).files) {
    if (file.name == state_file_name) {
      verify_checksum(path, file);
      continue;
    }
    const bool is_model = file.name.starts_with(model_stem);
    auto& tensors = is_model ? loaded.content.model : loaded.content.optimizer;
    for (auto& item : read_tensors(path, file, reading)) tensors.push_back(std::move(item));
  }
  loaded.content.state = read_state(path / state_file_name, folder->step);
  return loaded;
}

std::vector<std::filesystem::path> CheckpointStore::folders() const {
  std::vector<std::filesystem::path> paths;
  for (const auto& folder : step_folders(options_.folder)) paths.push_back(folder.path);
  return paths;
}

void CheckpointStore::remove_after(std::int64_t step) {
  for (const auto& folder : step_folders(options_.folder))
    if (folder.step > step) remove_checkpoint(folder.path);
}

}  // namespace kolo
