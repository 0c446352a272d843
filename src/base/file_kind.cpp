#include "kolo/base/file_kind.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

using namespace std::string_view_literals;

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  FileContent content;
};

constexpr FileContent torch_checkpoint{FileKind::torch_checkpoint,
                                       "a PyTorch checkpoint (torch.save)"};
constexpr FileContent pickle{FileKind::torch_checkpoint, "a Python pickle"};

constexpr FileContent packed(std::string_view name) {
  return {FileKind::packed, name};
}
constexpr FileContent other(std::string_view name) {
  return {FileKind::other, name};
}

// Zip archives, text and safetensors take more than a look at fixed places.
constexpr std::array signatures{
    Signature{0,
              "version https://git-lfs.github.com/spec/"sv,
              {FileKind::git_lfs_pointer, "a Git LFS pointer"}},
    // torch.save's magic number before PyTorch 1.6, pickled with protocol 2.
    Signature{0,
              "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv,
              {FileKind::torch_checkpoint, "a PyTorch checkpoint (torch.save, the old format)"}},
    Signature{0, "\x80\x02"sv, pickle},
    Signature{0, "\x80\x03"sv, pickle},
    Signature{0, "\x80\x04\x95"sv, pickle},
    Signature{0, "\x80\x05\x95"sv, pickle},
    Signature{0, "\x1f\x8b"sv, packed("gzip data")},
    Signature{0, "BZh"sv, packed("bzip2 data")},
    Signature{0,
              "\xfd"
              "7zXZ\x00"sv,
              packed("xz data")},
    Signature{0, "\x28\xb5\x2f\xfd"sv, packed("Zstandard data")},
    Signature{0, "7z\xbc\xaf\x27\x1c"sv, packed("a 7z archive")},
    Signature{257, "ustar"sv, packed("a tar archive")},
    Signature{0, "\x89HDF\r\n\x1a\n"sv, other("an HDF5 file")},
    Signature{0, "\x93NUMPY"sv, other("a .npy array")},
    Signature{0, "\xff\xd8\xff"sv, other("a JPEG image")},
    Signature{0, "\x89PNG\r\n\x1a\n"sv, other("a PNG image")},
    Signature{0, "GIF8"sv, other("a GIF image")},
    Signature{8, "WEBPVP8"sv, other("a WebP image")},
    Signature{0, "II*\x00"sv, other("a TIFF image")},
    Signature{0, "MM\x00*"sv, other("a TIFF image")},
    Signature{4, "ftypavif"sv, other("an AVIF image")},
    Signature{4, "ftyphei"sv, other("a HEIC image")},
    Signature{0, "%PDF-"sv, other("a PDF document")},
    Signature{0, "CDF\x01"sv, other("a netCDF file (classic)")},
    Signature{0, "CDF\x02"sv, other("a netCDF file (classic)")},
    Signature{0, "CDF\x05"sv, other("a netCDF file (classic)")},
    Signature{0, "MATLAB 5.0 MAT-file"sv, other("a MATLAB file")},
    Signature{0, "PAR1"sv, other("a Parquet file")},
    Signature{0, "GGUF"sv, other("a GGUF file")},
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
  return lower_case(std::string(text.substr(0, lower.size()))) == lower;
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

// Looks for such a name in a zip archive's list of contents, as far as that is in `ending`.
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
FileContent content_of_zip(std::string_view beginning, std::string_view ending) {
  constexpr std::size_t header = 30, length_at = 26;
  constexpr auto plain = packed("a zip archive");
  if (beginning.size() < header) return plain;
  const auto first = beginning.substr(header, little_endian(beginning.substr(length_at, 2)));
  if (first.ends_with(".npy")) return packed("a NumPy archive (.npz)");
  const bool is_of_torch = first.ends_with("/data.pkl") || lists_name_with(ending, "/data.pkl");
  if (!is_of_torch) return plain;
  if (!lists_name_with(ending, "/code/")) return torch_checkpoint;
  return {FileKind::torch_script, "a TorchScript archive (torch.jit.save)"};
}

FileContent content_of_text(std::string_view text) {
  constexpr FileContent html{FileKind::page, "an HTML page"}, json{FileKind::json, "a JSON file"};
  text = without_space(text);
  for (const auto word : {"<!doctype html"sv, "<html"sv, "<head"sv, "<body"sv})
    if (begins_with_word(text, word)) return html;
  if (begins_with_word(text, "<?xml")) {
    const bool is_html = text.find("<html") != std::string_view::npos ||
                         text.find("<!DOCTYPE html") != std::string_view::npos;
    return is_html ? html : FileContent{FileKind::page, "an XML document"};
  }
  if (!text.starts_with('{')) return {};
  const auto inside = without_space(text.substr(1));
  if (!inside.starts_with('"')) return {};
  // Hugging Face's begin with either key; files of other keys first are told by their name's end.
  const bool is_index =
      text.find("\"weight_map\"") != std::string_view::npos ||
      (inside.starts_with("\"metadata\"") && text.find("\"total_size\"") != std::string_view::npos);
  if (!is_index) return json;
  return {FileKind::safetensors_index, "an index of a model in several files of safetensors"};
}

// Eight bytes with the header's length, and the header, which is JSON; more spaces than are in
// sight may come first.
bool is_safetensors(std::string_view beginning) {
  constexpr std::size_t prefix = 8;
  constexpr std::uint64_t most_of_header = 100'000'000;
  if (beginning.size() <= prefix) return false;
  const auto length = little_endian(beginning.substr(0, prefix));
  const auto header = without_space(beginning.substr(prefix));
  return length >= 2 && length <= most_of_header && (header.empty() || header.starts_with('{'));
}

}  // namespace

FileContent content_of(std::span<const std::byte> beginning, std::span<const std::byte> ending) {
  const auto text = text_of(beginning);
  if (text.empty()) return {FileKind::empty, ""};
  // The first of all: the length of a header may look like another format's signature.
  if (is_safetensors(text)) return {FileKind::safetensors, "a safetensors file"};
  if (text.starts_with("PK\x03\x04")) return content_of_zip(text, text_of(ending));
  for (const auto& signature : signatures) {
    if (text.size() >= signature.offset &&
        text.substr(signature.offset).starts_with(signature.bytes))
      return signature.content;
  }
  return content_of_text(text);
}

FileContent content_of_file(const std::filesystem::path& path) {
  constexpr std::size_t first_bytes = 512;
  constexpr std::int64_t last_bytes = 1 << 20;  // a list of some 10 000 names
  try {
    const auto file = open_regular_file(path);
    std::vector<std::byte> beginning(first_bytes), ending;
    beginning.resize(read_up_to(file.get(), beginning, path));
    if (text_of(beginning).starts_with("PK")) {
      ending.resize(static_cast<std::size_t>(std::min(last_bytes, size_in_bytes(file, path))));
      (void)::lseek(file.get(), -static_cast<off_t>(ending.size()), SEEK_END);
      ending.resize(read_up_to(file.get(), ending, path));
    }
    return content_of(beginning, ending);
  } catch (const Error&) {  // the reader that refuses the file has said more
    return {};
  }
}

std::string other_file_text(const FileContent& content, std::string_view otherwise) {
  switch (content.kind) {
    case FileKind::unknown:
      return std::string(otherwise);
    case FileKind::empty:
      return "it is empty";
    case FileKind::page:
      return fmt::format("it is {}: the download went wrong, fetch the file again", content.name);
    case FileKind::git_lfs_pointer:
      return fmt::format(
          "it is {}, which stands for a file that was not fetched; git lfs pull in its folder gets "
          "the file itself",
          content.name);
    case FileKind::packed:
      return fmt::format("it is {}; unpack it first", content.name);
    default:
      return fmt::format("it is {}", content.name);
  }
}

std::string missing_path_text(const std::filesystem::path& path) {
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  if (path.is_absolute() || error) return fmt::format("{} does not exist", path.string());
  return fmt::format("{} does not exist in the current folder, {}", path.string(), here.string());
}

}  // namespace kolo
