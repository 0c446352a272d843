#include "kolo/base/file_kind.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

using namespace std::string_view_literals;

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  FileKind kind;
};

// Zip archives, text and safetensors take more than a look at fixed places.
constexpr std::array signatures{
    Signature{0, "version https://git-lfs.github.com/spec/"sv, FileKind::git_lfs_pointer},
    // torch.save's magic number, pickled with protocol 2.
    Signature{0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv,
              FileKind::torch_old_pickle},
    Signature{0, "\x80\x02"sv, FileKind::pickle},
    Signature{0, "\x80\x03"sv, FileKind::pickle},
    Signature{0, "\x80\x04\x95"sv, FileKind::pickle},
    Signature{0, "\x80\x05\x95"sv, FileKind::pickle},
    Signature{0, "GGUF"sv, FileKind::gguf},
    Signature{0, "\x1f\x8b"sv, FileKind::gzip},
    Signature{0, "BZh"sv, FileKind::bzip2},
    Signature{0,
              "\xfd"
              "7zXZ\x00"sv,
              FileKind::xz},
    Signature{0, "\x28\xb5\x2f\xfd"sv, FileKind::zstandard},
    Signature{0, "7z\xbc\xaf\x27\x1c"sv, FileKind::seven_zip},
    Signature{0, "Rar!\x1a\x07"sv, FileKind::rar},
    Signature{257, "ustar"sv, FileKind::tar},
    Signature{0, "\x89HDF\r\n\x1a\n"sv, FileKind::hdf5},
    Signature{0, "\x93NUMPY"sv, FileKind::npy},
    Signature{0, "\xff\xd8\xff"sv, FileKind::jpeg},
    Signature{0, "\x89PNG\r\n\x1a\n"sv, FileKind::png},
    Signature{0, "GIF87a"sv, FileKind::gif},
    Signature{0, "GIF89a"sv, FileKind::gif},
    Signature{8, "WEBP"sv, FileKind::webp},
    Signature{0, "II*\x00"sv, FileKind::tiff},
    Signature{0, "MM\x00*"sv, FileKind::tiff},
    Signature{4, "ftypavif"sv, FileKind::heif},
    Signature{4, "ftyphei"sv, FileKind::heif},
    Signature{4, "ftypmif1"sv, FileKind::heif},
    Signature{0, "%PDF-"sv, FileKind::pdf},
    Signature{0, "CDF\x01"sv, FileKind::netcdf},
    Signature{0, "CDF\x02"sv, FileKind::netcdf},
    Signature{0, "CDF\x05"sv, FileKind::netcdf},
    Signature{0, "MATLAB 5.0 MAT-file"sv, FileKind::matlab},
    Signature{0, "PAR1"sv, FileKind::parquet},
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view without_space(std::string_view text) {
  constexpr auto byte_order_mark = "\xef\xbb\xbf"sv;
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

// `lower`: in small letters.
bool begins_with_word(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::ranges::equal(text.substr(0, lower.size()), lower, [](char letter, char small) {
           return (letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a')
                                                  : letter) == small;
         });
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

// Whether a zip archive's list of contents, as far as it is in `ending`, has such a name.
bool lists_name_with(std::string_view ending, std::string_view part) {
  constexpr std::size_t header = 46, length_at = 28;
  constexpr auto mark = "PK\x01\x02"sv;
  for (auto at = ending.find(mark); at != std::string_view::npos; at = ending.find(mark, at + 1)) {
    if (ending.size() - at < header) break;
    const auto length = little_endian(ending.substr(at + length_at, 2));
    if (ending.substr(at + header, length).find(part) != std::string_view::npos) return true;
  }
  return false;
}

// Both of PyTorch's archives begin with FOLDER/data.pkl; a script has its code beside it.
FileKind kind_of_zip(std::string_view beginning, std::string_view ending) {
  constexpr std::size_t header = 30, length_at = 26;
  if (beginning.size() < header) return FileKind::zip_archive;
  const auto first = beginning.substr(header, little_endian(beginning.substr(length_at, 2)));
  if (first.ends_with(".npy")) return FileKind::numpy_archive;
  const bool is_of_torch = first.ends_with("/data.pkl") || lists_name_with(ending, "/data.pkl");
  if (!is_of_torch) return FileKind::zip_archive;
  return lists_name_with(ending, "/code/") ? FileKind::torch_script : FileKind::torch_checkpoint;
}

FileKind kind_of_text(std::string_view text) {
  text = without_space(text);
  for (const auto word : {"<!doctype html"sv, "<html"sv, "<head"sv, "<body"sv})
    if (begins_with_word(text, word)) return FileKind::html_page;
  if (begins_with_word(text, "<?xml")) {
    return text.find("<html") != std::string_view::npos ||
                   text.find("<!DOCTYPE html") != std::string_view::npos
               ? FileKind::html_page
               : FileKind::xml_document;
  }
  if (!text.starts_with('{')) return FileKind::unknown;
  const auto inside = without_space(text.substr(1));
  if (!inside.starts_with('"')) return FileKind::unknown;
  // Hugging Face's begin with either key; files of other keys first are told by their name's end.
  const bool is_index =
      text.find("\"weight_map\"") != std::string_view::npos ||
      (inside.starts_with("\"metadata\"") && text.find("\"total_size\"") != std::string_view::npos);
  return is_index ? FileKind::safetensors_index : FileKind::json;
}

bool is_safetensors(std::string_view beginning) {
  constexpr std::size_t prefix = 8;
  constexpr std::uint64_t most_of_header = 100'000'000;
  if (beginning.size() <= prefix) return false;
  const auto length = little_endian(beginning.substr(0, prefix));
  return length >= 2 && length <= most_of_header &&
         without_space(beginning.substr(prefix)).starts_with('{');
}

}  // namespace

FileKind file_kind(std::span<const std::byte> beginning, std::span<const std::byte> ending) {
  const auto text = text_of(beginning);
  if (text.empty()) return FileKind::empty;
  // The first of all: the length of a header may look like another format's signature.
  if (is_safetensors(text)) return FileKind::safetensors;
  if (text.starts_with("PK\x03\x04")) return kind_of_zip(text, text_of(ending));
  for (const auto& signature : signatures) {
    if (text.size() >= signature.offset &&
        text.substr(signature.offset).starts_with(signature.bytes) &&
        (signature.kind != FileKind::webp || text.starts_with("RIFF")))
      return signature.kind;
  }
  return kind_of_text(text);
}

FileKind file_kind_at(const std::filesystem::path& path) {
  constexpr std::size_t first_bytes = 512;
  constexpr off_t last_bytes = off_t{1} << 20;  // a list of some 10 000 names
  try {
    const auto file = open_regular_file(path);
    std::vector<std::byte> beginning(first_bytes), ending;
    beginning.resize(read_up_to(file.get(), beginning, path));
    struct stat status {};
    if (text_of(beginning).starts_with("PK") && ::fstat(file.get(), &status) == 0 &&
        ::lseek(file.get(), std::max(off_t{0}, status.st_size - last_bytes), SEEK_SET) >= 0) {
      ending.resize(static_cast<std::size_t>(std::min(last_bytes, status.st_size)));
      ending.resize(read_up_to(file.get(), ending, path));
    }
    return file_kind(beginning, ending);
  } catch (const Error&) {  // the reader that refuses the file has said more
    return FileKind::unknown;
  }
}

std::string_view file_kind_name(FileKind kind) {
  switch (kind) {
    case FileKind::unknown:
      return "";
    case FileKind::empty:
      return "empty";
    case FileKind::html_page:
      return "an HTML page";
    case FileKind::xml_document:
      return "an XML document";
    case FileKind::git_lfs_pointer:
      return "a Git LFS pointer";
    case FileKind::json:
      return "a JSON file";
    case FileKind::safetensors_index:
      return "an index of a model in several files of safetensors";
    case FileKind::zip_archive:
      return "a zip archive";
    case FileKind::numpy_archive:
      return "a NumPy archive (.npz)";
    case FileKind::torch_checkpoint:
      return "a PyTorch checkpoint (torch.save)";
    case FileKind::torch_script:
      return "a TorchScript archive (torch.jit.save)";
    case FileKind::torch_old_pickle:
      return "a PyTorch checkpoint (torch.save, the old format)";
    case FileKind::pickle:
      return "a Python pickle";
    case FileKind::safetensors:
      return "a safetensors file";
    case FileKind::gguf:
      return "a GGUF file";
    case FileKind::gzip:
      return "gzip data";
    case FileKind::bzip2:
      return "bzip2 data";
    case FileKind::xz:
      return "xz data";
    case FileKind::zstandard:
      return "Zstandard data";
    case FileKind::seven_zip:
      return "a 7z archive";
    case FileKind::rar:
      return "a RAR archive";
    case FileKind::tar:
      return "a tar archive";
    case FileKind::hdf5:
      return "an HDF5 file";
    case FileKind::npy:
      return "a .npy array";
    case FileKind::jpeg:
      return "a JPEG image";
    case FileKind::png:
      return "a PNG image";
    case FileKind::gif:
      return "a GIF image";
    case FileKind::webp:
      return "a WebP image";
    case FileKind::tiff:
      return "a TIFF image";
    case FileKind::heif:
      return "a HEIC or AVIF image";
    case FileKind::pdf:
      return "a PDF document";
    case FileKind::netcdf:
      return "a netCDF file (classic)";
    case FileKind::matlab:
      return "a MATLAB file";
    case FileKind::parquet:
      return "a Parquet file";
  }
  return "";
}

std::string other_file_text(FileKind kind, std::string_view otherwise) {
  switch (kind) {
    case FileKind::unknown:
      return std::string(otherwise);
    case FileKind::empty:
      return "it is empty";
    case FileKind::html_page:
    case FileKind::xml_document:
      return fmt::format("it is {}: the download went wrong, fetch the file again",
                         file_kind_name(kind));
    case FileKind::git_lfs_pointer:
      return "it is a Git LFS pointer, which stands for a file that was not fetched; git lfs pull "
             "in its folder gets the file itself";
    case FileKind::zip_archive:
    case FileKind::gzip:
    case FileKind::bzip2:
    case FileKind::xz:
    case FileKind::zstandard:
    case FileKind::seven_zip:
    case FileKind::rar:
    case FileKind::tar:
      return fmt::format("it is {}; unpack it first", file_kind_name(kind));
    default:
      return fmt::format("it is {}", file_kind_name(kind));
  }
}

std::string missing_path_text(const std::filesystem::path& path) {
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  if (path.is_absolute() || error) return fmt::format("{} does not exist", path.string());
  return fmt::format("{} does not exist in the current folder, {}", path.string(), here.string());
}

}  // namespace kolo
