#include "checkpoint/manifest.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <system_error>

#include <zlib.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

constexpr const char* format_name = "kolo-checkpoint";
constexpr int format_version = 1;

struct Checksum {
  std::uint64_t size = 0;
  std::uint32_t crc32 = 0;
};

Checksum checksum_of(const std::filesystem::path& path) {
  const FileDescriptor file = open_regular_file(path);
  std::vector<std::byte> block(std::size_t{1} << 20);
  Checksum result;
  std::size_t count = 0;
  do {
    count = read_up_to(file.get(), block, path);
    result.crc32 = static_cast<std::uint32_t>(
        ::crc32_z(result.crc32, reinterpret_cast<const unsigned char*>(block.data()), count));
    result.size += count;
  } while (count == block.size());
  return result;
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& problem) {
  throw Error(fmt::format("checkpoint: {} {}", path.string(), problem));
}

Manifest parse(const nlohmann::json& document) {
  if (json_value<std::string>(document, "format") != format_name) {
    throw Error(fmt::format("is not of the format {}", format_name));
  }
  if (const int version = json_value<int>(document, "version"); version != format_version) {
    throw Error(fmt::format("has version {}, this program reads {}", version, format_version));
  }
  Manifest manifest;
  manifest.step = json_value<std::int64_t>(document, "step");
  manifest.is_best = json_value<bool>(document, "best");
  for (const auto& file : json_list(document, "files")) {
    manifest.files.push_back({json_value<std::string>(file, "name"),
                              json_value<std::uint64_t>(file, "size"),
                              json_value<std::uint32_t>(file, "crc32")});
  }
  const auto has_name = [](const Manifest::File& file, const char* name) {
    return file.name == name;
  };
  if (!std::equal(manifest.files.begin(), manifest.files.end(), checkpoint_file_names.begin(),
                  checkpoint_file_names.end(), has_name)) {
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
  }
}

Manifest make_manifest(const std::filesystem::path& folder, std::int64_t step, bool is_best) {
  Manifest manifest{step, is_best, {}};
  for (const char* name : checkpoint_file_names) {
    const auto checksum = checksum_of(folder / name);
    manifest.files.push_back({name, checksum.size, checksum.crc32});
  }
  return manifest;
}

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  nlohmann::ordered_json document{{"format", format_name},
                                  {"version", format_version},
                                  {"step", manifest.step},
                                  {"best", manifest.is_best},
                                  {"files", nlohmann::ordered_json::array()}};
  for (const auto& file : manifest.files) {
    document["files"].push_back({{"name", file.name}, {"size", file.size}, {"crc32", file.crc32}});
  }
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

bool is_checkpoint_file(std::string_view name) {
  const auto is_of = [name](const char* file) { return name == file || is_part_file(name, file); };
  return is_of(manifest_file_name) || std::ranges::any_of(checkpoint_file_names, is_of);
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
    if (size != file.size) {
      fail(path, fmt::format("has {} bytes, the manifest says {}", size, file.size));
    }
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
  require_checksum(folder, file, checksum_of(folder / file.name).crc32);
}

}  // namespace kolo
