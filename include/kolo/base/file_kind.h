#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

// What a file is that is not the one expected, for the messages that refuse it: told by content,
// never by name.
namespace kolo {

enum class FileKind {
  unknown,
  empty,
  html_page,
  xml_document,
  git_lfs_pointer,
  json,
  safetensors_index,  // of a model in several files of safetensors
  zip_archive,
  numpy_archive,     // .npz
  torch_checkpoint,  // of torch.save, a zip archive
  torch_script,      // of torch.jit.save, a zip archive as well
  torch_old_pickle,  // of torch.save before PyTorch 1.6
  pickle,
  safetensors,
  gguf,
  gzip,
  bzip2,
  xz,
  zstandard,
  seven_zip,
  rar,
  tar,
  hdf5,
  npy,
  jpeg,
  png,
  gif,
  webp,
  tiff,
  heif,  // HEIC and AVIF
  pdf,
  netcdf,
  matlab,
  parquet
};

// Reads the first bytes of a file (512 tell all), and for zip archives the last ones, where their
// list of contents is.
[[nodiscard]] FileKind file_kind(std::span<const std::byte> beginning,
                                 std::span<const std::byte> ending = {});

// The same of a file; unknown when there is none, or it can't be read.
[[nodiscard]] FileKind file_kind_at(const std::filesystem::path& path);

// "an HTML page", "a zip archive"; "" for unknown.
[[nodiscard]] std::string_view file_kind_name(FileKind kind);

// What a message says of a file that is another one than was expected: "it is an HTML page: the
// download went wrong, fetch the file again". `otherwise` for what isn't known.
[[nodiscard]] std::string other_file_text(FileKind kind, std::string_view otherwise);

// "data/mnist does not exist in the current folder, /home/user/project"; an absolute path alone
// does not exist.
[[nodiscard]] std::string missing_path_text(const std::filesystem::path& path);

}  // namespace kolo
