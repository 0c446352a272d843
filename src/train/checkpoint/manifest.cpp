#include "train/checkpoint/manifest.h"

#include <algorithm>
#include <cstddef>
#include <regex>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "train/checkpoint/safetensors_header.h"

namespace kolo {

namespace {

constexpr const char* format_name = "kolo-checkpoint";
constexpr int format_version = 1;
constexpr int sharded_version = 2;  // of several shards, which older programs don't know

std::uint32_t checksum_of(const std::filesystem::path& path) {
  const FileDescriptor file = open_regular_file(path);
  std::vector<std::byte> block(std::size_t{1} << 20);
  std::uint32_t result = 0;
  std::size_t count = 0;
  do {
    count = read_up_to(file.get(), block, path);
    result = checksum(result, std::span(block).first(count));
  } while (count == block.size());
  return result;
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& problem) {
  throw Error(fmt::format("checkpoint: {} {}", path.string(), problem));
}

// Names of a checkpoint's files: the model's shards, the optimizer's, the state.
std::vector<std::string> checkpoint_file_names(int shards) {
  std::vector<std::string> names;
  for (const auto part : {model_stem, optimizer_stem})
    for (int shard = 0; shard < shards; ++shard)
      names.push_back(tensors_file_name(part, shard, shards));
  names.emplace_back(state_file_name);
  return names;
}

Manifest parse(const nlohmann::json& document) {
  if (json_value<std::string>(document, "format") != format_name)
    throw Error(fmt::format("is not of the format {}", format_name));
  const int version = json_value<int>(document, "version");
  if (version != format_version && version != sharded_version)
    throw Error(fmt::format("has version {}, this program reads {} and {}", version, format_version,
                            sharded_version));
  Manifest manifest;
  if (version == sharded_version) manifest.shards = json_value<int>(document, "shards");
  if (manifest.shards < 1 || manifest.shards > most_shards)
    throw Error(fmt::format("has {} shards, expected 1 to {}", manifest.shards, most_shards));
  manifest.step = json_value<std::int64_t>(document, "step");
  manifest.is_best = json_value<bool>(document, "best");
  for (const auto& file : json_list(document, "files"))
    manifest.files.push_back(file_from_json(file));
  if (!std::ranges::equal(manifest.files, checkpoint_file_names(manifest.shards), {},
                          &Manifest::File::name)) {
    throw Error("does not list the files of a checkpoint");
  }
  return manifest;
}

}  // namespace

nlohmann::json read_json(const std::filesystem::path& path) {
  const auto text = read_text_file(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail(path, fmt::format("is malformed at byte {}: expected JSON", error.byte));
  } catch (const nlohmann::json::exception&) {  // a number beyond all that there are
    fail(path, "is malformed: a number in it is too large");
  }
}

std::string tensors_file_name(std::string_view part, int shard, int shards) {
  if (shards == 1) return fmt::format("{}.safetensors", part);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", part, shard + 1, shards);
}

nlohmann::ordered_json to_json(const Manifest::File& file) {
  return {{"name", file.name}, {"size", file.size}, {"crc32", file.crc32}};
}

Manifest::File file_from_json(const nlohmann::json& document) {
  return {json_value<std::string>(document, "name"), json_value<std::uint64_t>(document, "size"),
          json_value<std::uint32_t>(document, "crc32")};
}

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  const bool is_sharded = manifest.shards > 1;
  nlohmann::ordered_json document{{"format", format_name},
                                  {"version", is_sharded ? sharded_version : format_version},
                                  {"step", manifest.step},
                                  {"best", manifest.is_best}};
  if (is_sharded) document["shards"] = manifest.shards;
  document["files"] = nlohmann::ordered_json::array();
  for (const auto& file : manifest.files) document["files"].push_back(to_json(file));
  write_file_atomically(folder / manifest_file_name, document.dump(2) + "\n");
}

bool has_manifest(const std::filesystem::path& folder) {
  try {
    const auto document =
        nlohmann::json::parse(read_text_file(folder / manifest_file_name), nullptr, false);
    return document.is_object() && document.contains("format") && document["format"] == format_name;
  } catch (const Error&) {
    return false;
  }
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const auto path = folder / manifest_file_name;
  std::error_code ignored;  // whatever it is, reading the file will tell
  if (!std::filesystem::exists(path, ignored)) fail(path, "is missing");
  const auto document = read_json(path);
  try {
    return parse(document);
  } catch (const nlohmann::json::exception& error) {
    fail(path, fmt::format("is malformed: {}", in_plain_words(error)));
  } catch (const JsonError& error) {
    fail(path, fmt::format("is malformed: {}", error.what()));
  } catch (const Error& error) {
    fail(path, error.what());
  }
}

void verify_sizes(const std::filesystem::path& folder, const Manifest& manifest) {
  for (const auto& file : manifest.files) {
    const auto path = folder / file.name;
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error == std::errc::no_such_file_or_directory) fail(path, "is missing");
    if (error) fail(path, fmt::format("can't be read: {}", error.message()));
    if (size != file.size)
      fail(path, fmt::format("has {} bytes, the manifest says {}", size, file.size));
  }
}

void require_checksum(const std::filesystem::path& folder, const Manifest::File& file,
                      std::uint32_t crc32) {
  if (crc32 == file.crc32) return;
  fail(folder / file.name,
       fmt::format("is damaged: its checksum is {:08x}, the manifest says {:08x}", crc32,
                   file.crc32));
}

void verify_checksum(const std::filesystem::path& folder, const Manifest::File& file) {
  require_checksum(folder, file, checksum_of(folder / file.name));
}

namespace {

constexpr std::string_view replaced_suffix = ".replaced";

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("step-{:08}", step);
}

std::optional<StepFolder> parse_folder(const std::filesystem::path& path) {
  static const std::regex pattern(R"(step-(\d{8,18})(\.replaced)?)");
  const std::string name = path.filename().string();
  std::smatch parts;
  if (!std::regex_match(name, parts, pattern)) return std::nullopt;
  StepFolder folder{path, std::stoll(parts[1].str()), parts[2].matched};
  const auto proper = folder.is_replaced ? replaced_name(folder.step) : step_name(folder.step);
  return name == proper ? std::optional(folder) : std::nullopt;
}

std::string replaced_name(std::int64_t step) {
  return fmt::format("{}{}", step_name(step), replaced_suffix);
}

std::string aside_name(std::int64_t step) {
  return fmt::format(".{}.part", step_name(step));
}

std::vector<StepFolder> step_folders(const std::filesystem::path& parent) {
  std::vector<StepFolder> folders;
  std::error_code error;
  auto entries = std::filesystem::directory_iterator(parent, error);
  if (error == std::errc::no_such_file_or_directory) return folders;
  if (error)
    throw Error(fmt::format("checkpoint: cannot list {}: {}", parent.string(), error.message()));
  for (const auto& entry : entries) {
    const auto folder = parse_folder(entry.path());
    if (folder && entry.is_directory()) folders.push_back(*folder);
  }
  std::sort(folders.begin(), folders.end(), [](const StepFolder& a, const StepFolder& b) {
    return a.step != b.step ? a.step > b.step : b.is_replaced && !a.is_replaced;
  });
  return folders;
}

namespace {

// True for the names of a checkpoint's files, also while they are written.
bool is_checkpoint_file(const std::string& name) {
  static const std::regex files(
      R"((model|optimizer)(-\d{5}-of-\d{5})?\.safetensors|state\.json|manifest\.json)");
  if (std::regex_match(name, files)) return true;
  // FILE.PROCESS.part as long as it is written.
  const auto whole = name.substr(0, name.rfind('.', name.rfind('.') - 1));
  return std::regex_match(whole, files) && is_unfinished_file(name, whole);
}

// A link goes itself, not what it leads to; a folder stays where something is in it.
void remove_one(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error && error != std::errc::directory_not_empty)
    throw Error(fmt::format("checkpoint: cannot remove {}: {}", path.string(), error.message()));
}

}  // namespace

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
  for (const auto& path : own) remove_one(path);
}

void remove_checkpoint(const std::filesystem::path& path) {
  if (!has_manifest(path)) return;
  std::filesystem::is_symlink(path) ? remove_one(path) : remove_own_files(path);
}

void move_out_of_the_way(const std::filesystem::path& path) {
  int number = 1;
  const auto name = [&] { return fmt::format("{}.{}", path.string(), number); };
  while (std::filesystem::exists(std::filesystem::symlink_status(name()))) ++number;
  rename_durably(path, name());
}

void remove_leftovers(const std::filesystem::path& parent) {
  static const std::regex aside(R"(\.step-\d{8,}\.part)");
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    if (std::regex_match(entry.path().filename().string(), aside) && entry.is_directory() &&
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
