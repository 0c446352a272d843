#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

// Tells the kind of an unexpected file, by its content and never by its name: for the messages that
// refuse it.
namespace kolo {

// Kinds that call for different advice.
enum class FileKind : std::uint8_t {
  unknown,
  empty,
  page,  // HTML or XML: what servers send in place of a file
  git_lfs_pointer,
  packed,  // an archive, or compressed data
  json,
  safetensors_index,  // of a model in several files of safetensors
  safetensors,
  torch_checkpoint,  // of torch.save, or another pickle of Python's
  torch_script,      // of torch.jit.save
  other,             // a format with a name
};

struct FileContent {
  FileKind kind = FileKind::unknown;
  std::string_view name;  // "an HTML page", "a zip archive"; empty where it is unknown or nothing
};

// Looks at the first bytes of a file (512 tell all), and of zip archives at the last ones, where
// their list of contents is.
[[nodiscard]] FileContent content_of(std::span<const std::byte> beginning,
                                     std::span<const std::byte> ending = {});

// Looks at a file; unknown when there is none, or it can't be read.
[[nodiscard]] FileContent content_of_file(const std::filesystem::path& path);

// Part of a message that names the file's kind and the remedy: "it is an HTML page: the download
// went wrong, fetch the file again". `otherwise` for unknown files.
[[nodiscard]] std::string other_file_text(const FileContent& content, std::string_view otherwise);

// "data/mnist does not exist in the current folder, /home/user/project"; an absolute path alone
// does not exist.
[[nodiscard]] std::string missing_path_text(const std::filesystem::path& path);

}  // namespace kolo
