#include "train/checkpoint/step_folders.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "train/checkpoint/manifest.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view aside_suffix = ".part";
constexpr std::string_view replaced_suffix = ".replaced";

bool is_aside_name(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(aside_suffix)) return false;
  name.remove_prefix(1);
  name.remove_suffix(aside_suffix.size());
  const auto folder = parse_folder(name);
  return folder && !folder->is_replaced;
}

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:08}", step_prefix, step);
}

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

std::string replaced_name(std::int64_t step) {
  return fmt::format("{}{}", step_name(step), replaced_suffix);
}

std::string aside_name(std::int64_t step) {
  return fmt::format(".{}{}", step_name(step), aside_suffix);
}

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

void remove_checkpoint(const std::filesystem::path& path) {
  if (!has_manifest(path)) return;
  if (!std::filesystem::is_symlink(path)) return remove_own_files(path);
  std::error_code error;
  std::filesystem::remove(path, error);  // the link, not what it leads to
  if (error)
    throw Error(fmt::format("checkpoint: cannot remove {}: {}", path.string(), error.message()));
}

void move_out_of_the_way(const std::filesystem::path& path) {
  int number = 1;
  const auto name = [&] { return fmt::format("{}.{}", path.string(), number); };
  while (std::filesystem::exists(std::filesystem::symlink_status(name()))) ++number;
  rename_durably(path, name());
}

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

}  // namespace kolo
