#include "kolo/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/json_value.h"
#include "checkpoint/manifest.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view aside_suffix = ".part";
// A step folder that a newer one of the same step is taking the place of. It counts as a
// checkpoint, so that a crash between the two renames leaves one that is found.
constexpr std::string_view replaced_suffix = ".replaced";

struct StepFolder {
  std::filesystem::path path;
  std::int64_t step = 0;
  bool is_replaced = false;
};

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:08}", step_prefix, step);
}

// "step-NNNNNNNN" or "step-NNNNNNNN.replaced"; nullopt for every other name.
std::optional<StepFolder> parse_folder(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::string_view text = name;
  if (!text.starts_with(step_prefix)) return std::nullopt;
  text.remove_prefix(step_prefix.size());
  StepFolder folder{path, 0, text.ends_with(replaced_suffix)};
  if (folder.is_replaced) text.remove_suffix(replaced_suffix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), folder.step);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || step_name(folder.step) != fmt::format("{}{}", step_prefix, text)) {
    return std::nullopt;
  }
  return folder;
}

// ".step-NNNNNNNN.part"
std::string aside_name(std::int64_t step) {
  return fmt::format(".{}{}", step_name(step), aside_suffix);
}

bool is_aside_name(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(aside_suffix)) return false;
  name.remove_prefix(1);
  name.remove_suffix(aside_suffix.size());
  const auto folder = parse_folder(name);
  return folder && !folder->is_replaced;
}

// Newest first; of one step, the one that replaces before the one being replaced.
std::vector<StepFolder> step_folders(const std::filesystem::path& parent) {
  std::vector<StepFolder> folders;
  std::error_code error;
  auto entries = std::filesystem::directory_iterator(parent, error);
  if (error == std::errc::no_such_file_or_directory) return folders;
  if (error) {
    throw Error(fmt::format("checkpoint: cannot list {}: {}", parent.string(), error.message()));
  }
  for (const auto& entry : entries) {
    const auto folder = parse_folder(entry.path());
    if (folder && entry.is_directory()) folders.push_back(*folder);
  }
  std::sort(folders.begin(), folders.end(), [](const StepFolder& a, const StepFolder& b) {
    return a.step != b.step ? a.step > b.step : b.is_replaced && !a.is_replaced;
  });
  return folders;
}

// Nothing but what save() has written is ever removed: a checkpoint's own files, and then their
// folder, unless something of somebody else's lies in it. The manifest goes last, so that what a
// crash leaves is still known for what it is.
void remove_own_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> own;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const bool is_own = entry.is_directory() && !entry.is_symlink()
                            ? std::filesystem::is_empty(entry.path())
                            : is_checkpoint_file(entry.path().filename().string());
    if (is_own) own.push_back(entry.path());
  }
  std::stable_partition(own.begin(), own.end(), [](const std::filesystem::path& path) {
    return path.filename() != manifest_file_name;
  });
  own.push_back(folder);
  for (const auto& path : own) {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error && error != std::errc::directory_not_empty)
      throw Error(fmt::format("checkpoint: cannot remove {}: {}", path.string(), error.message()));
  }
}

// A step folder that this program has not made, as its manifest tells, stays as it is.
void remove_checkpoint(const std::filesystem::path& path) {
  if (!has_manifest(path)) return;
  if (!std::filesystem::is_symlink(path)) return remove_own_files(path);
  std::error_code error;
  std::filesystem::remove(path, error);  // the link, not what it leads to
  if (error)
    throw Error(fmt::format("checkpoint: cannot remove {}: {}", path.string(), error.message()));
}

// What lies in the way of a checkpoint and is none keeps its contents, as step-00000025.1 and so
// on.
void move_out_of_the_way(const std::filesystem::path& path) {
  int number = 1;
  const auto name = [&] { return fmt::format("{}.{}", path.string(), number); };
  while (std::filesystem::exists(std::filesystem::symlink_status(name()))) ++number;
  rename_durably(path, name());
}

// A folder that is removed again unless it has been renamed to its final name.
class AsideFolder {
 public:
  explicit AsideFolder(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code error;
    if (!std::filesystem::create_directory(path_, error) || error) {
      throw Error(fmt::format("checkpoint: cannot make the folder {}: {}", path_.string(),
                              error ? error.message() : "it exists"));
    }
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
  if (error || !std::filesystem::is_directory(folder)) {
    throw Error(fmt::format("checkpoint: cannot make the folder {}: {}", folder.string(),
                            error ? error.message() : "there is a file of that name"));
  }
  if (is_new) {
    const auto above = std::filesystem::absolute(folder).lexically_normal().parent_path();
    flush_to_disk(above);
  }
}

// What an interrupted save left: folders made aside, and folders being replaced.
void remove_leftovers(const std::filesystem::path& parent) {
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    if (is_aside_name(entry.path().filename().string()) && entry.is_directory() &&
        !entry.is_symlink())
      remove_own_files(entry.path());
  }
  for (const auto& folder : step_folders(parent)) {
    if (!folder.is_replaced) continue;
    const auto proper = parent / step_name(folder.step);
    if (std::filesystem::exists(proper)) {
      remove_checkpoint(folder.path);
    } else {
      rename_durably(folder.path, proper);
    }
  }
}

void write_content(const std::filesystem::path& folder, std::int64_t step,
                   const Checkpoint& checkpoint, bool is_best) {
  write_safetensors(folder / model_file_name, checkpoint.model);
  write_safetensors(folder / optimizer_file_name, checkpoint.optimizer);
  auto state = checkpoint.state;
  state["step"] = step;
  try {
    write_file_atomically(folder / state_file_name, state.dump(2) + "\n");
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("checkpoint: the state cannot be written as JSON: {}", in_plain_words(error)));
  }
  write_manifest(folder, make_manifest(folder, step, is_best));
}

nlohmann::json read_state(const std::filesystem::path& path, std::int64_t step) {
  try {
    auto state = read_json(path);
    if (state.at("step").get<std::int64_t>() != step) {
      throw Error(fmt::format("checkpoint: {} is of step {}, its folder of step {}", path.string(),
                              state.at("step").dump(), step));
    }
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("checkpoint: {} is malformed: {}", path.string(), in_plain_words(error)));
  }
}

std::vector<NamedTensor> read_tensors(const std::filesystem::path& folder,
                                      const Manifest::File& file, CheckpointReading reading) {
  std::vector<NamedTensor> tensors;
  if (reading == CheckpointReading::checked) verify_checksum(folder, file);
  if (reading != CheckpointReading::whole) {
    for (const auto& entry : list_safetensors(folder / file.name).tensors) {
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
  if (manifest.step != folder.step) {
    throw Error(fmt::format("checkpoint: the manifest in {} is of step {}", folder.path.string(),
                            manifest.step));
  }
  verify_sizes(folder.path, manifest);
  return manifest;
}

// The paths of `all` (newest first) that stay once `saved_step` is on disk.
std::vector<std::filesystem::path> entries_to_keep(const std::vector<CheckpointStore::Entry>& all,
                                                   std::int64_t saved_step, int keep_last) {
  std::vector<std::filesystem::path> kept;
  int recent = 0;
  bool has_best = false;
  for (const auto& entry : all) {
    if (entry.step > saved_step) continue;
    const bool is_best = entry.is_best && !has_best;
    if (recent < keep_last || is_best) kept.push_back(entry.path);
    ++recent;
    has_best = has_best || is_best;
  }
  return kept;
}

void remove_old(const std::filesystem::path& parent, std::int64_t saved_step,
                const std::vector<std::filesystem::path>& kept) {
  const auto is_kept = [&](const std::filesystem::path& path) {
    return std::find(kept.begin(), kept.end(), path) != kept.end();
  };
  // Nothing goes as long as the checkpoint that was just written can't be found again.
  if (!is_kept(parent / step_name(saved_step))) return;
  for (const auto& folder : step_folders(parent)) {
    if (folder.step <= saved_step && !is_kept(folder.path)) remove_checkpoint(folder.path);
  }
}

}  // namespace

CheckpointStore::CheckpointStore(CheckpointOptions options) : options_(std::move(options)) {
  if (options_.keep_last < 1) {
    throw InputError(
        fmt::format("checkpoint: keep_last is {}, expected at least 1", options_.keep_last));
  }
  if (options_.folder.empty()) throw InputError("checkpoint: no folder given");
}

std::filesystem::path CheckpointStore::save(std::int64_t step, const Checkpoint& checkpoint,
                                            bool is_best) {
  if (step < 0) throw Error(fmt::format("checkpoint: step is {}, expected at least 0", step));
  if (!checkpoint.state.is_object()) {
    throw Error(fmt::format("checkpoint: the state is {}, expected an object",
                            checkpoint.state.type_name()));
  }
  const auto& parent = options_.folder;
  make_folder(options_);
  remove_leftovers(parent);

  AsideFolder aside(parent / aside_name(step));
  write_content(aside.path(), step, checkpoint, is_best);
  const auto target = parent / step_name(step);
  if (std::filesystem::exists(target) && !has_manifest(target)) move_out_of_the_way(target);
  if (std::filesystem::exists(target)) {
    const auto replaced = parent / (step_name(step) + std::string(replaced_suffix));
    rename_durably(target, replaced);
    aside.keep_as(target);
    remove_checkpoint(replaced);
  } else {
    aside.keep_as(target);
  }
  remove_old(parent, step, entries_to_keep(list(), step, options_.keep_last));
  return target;
}

std::vector<CheckpointStore::Entry> CheckpointStore::list() const {
  std::vector<Entry> entries;
  for (const auto& folder : step_folders(options_.folder)) {
    if (!entries.empty() && entries.back().step == folder.step) continue;
    try {
      entries.push_back({folder.path, folder.step, inspect(folder).is_best});
    } catch (const Error&) {  // it does not look complete, so it is none
      continue;
    }
  }
  return entries;
}

std::vector<CheckpointStore::Damaged> CheckpointStore::damaged() const {
  std::vector<Damaged> damaged;
  std::int64_t whole = -1;  // the step before, of which there may be two folders
  for (const auto& folder : step_folders(options_.folder)) {
    if (folder.step == whole) continue;
    try {
      (void)inspect(folder);
      whole = folder.step;
    } catch (const Error& error) {
      damaged.push_back({folder.path, folder.step, error.what()});
    }
  }
  return damaged;
}

std::optional<CheckpointStore::Entry> CheckpointStore::best() const {
  for (const auto& entry : list()) {
    if (entry.is_best) return entry;
  }
  return std::nullopt;
}

std::optional<CheckpointStore::Loaded> CheckpointStore::load_newest(
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

CheckpointStore::Loaded CheckpointStore::load(const std::filesystem::path& path,
                                              CheckpointReading reading) {
  const auto folder = parse_folder(path);
  if (!folder) {
    throw Error(fmt::format("checkpoint: {} is not a checkpoint, expected a folder step-NNNNNNNN",
                            path.string()));
  }
  Loaded loaded{path, folder->step, {}};
  for (const auto& file : inspect(*folder).files) {
    if (file.name == model_file_name)
      loaded.content.model = read_tensors(path, file, reading);
    else if (file.name == optimizer_file_name)
      loaded.content.optimizer = read_tensors(path, file, reading);
    else
      verify_checksum(path, file);
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
  for (const auto& folder : step_folders(options_.folder)) {
    if (folder.step > step) remove_checkpoint(folder.path);
  }
}

}  // namespace kolo
