#include "kolo/base/file_kind.h"

#include <tuple>
#include <vector>

#include <gmock/gmock.h>

#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using namespace std::string_literals;

FileContent content(const std::string& beginning, const std::string& ending = {}) {
  return content_of(std::as_bytes(std::span(beginning)), std::as_bytes(std::span(ending)));
}

// A zip archive of these names, without contents, as far as its kind is concerned.
std::string zip_of(const std::vector<std::string>& names) {
  const auto length_of = [](const std::string& name) {
    return std::string{static_cast<char>(name.size() & 255), static_cast<char>(name.size() >> 8)};
  };
  std::string files, list;
  for (const auto& name : names) {
    files += "PK\x03\x04"s + std::string(22, '\0') + length_of(name) + "\0\0"s + name;
    list += "PK\x01\x02"s + std::string(24, '\0') + length_of(name) + std::string(16, '\0') + name;
  }
  return files + list + "PK\x05\x06"s + std::string(18, '\0');
}

TEST(FileKind, IsToldByTheFirstBytes) {
  const std::vector<std::tuple<std::string, FileKind, std::string>> files{
      {"", FileKind::empty, ""},
      {"hello", FileKind::unknown, ""},
      {"\xef\xbb\xbf\n <!DOCTYPE HTML PUBLIC", FileKind::page, "HTML"},
      {"<HTML>", FileKind::page, "HTML"},
      {"<?xml version=\"1.0\"?>\n<!DOCTYPE html>", FileKind::page, "HTML"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied", FileKind::page, "XML"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", FileKind::git_lfs_pointer,
       "LFS"},
      {R"({"model": 1})", FileKind::json, "JSON"},
      {R"({ "metadata": {"total_size": 5}, "weight_map": {)", FileKind::safetensors_index, "index"},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", FileKind::torch_checkpoint,
       "PyTorch"},
      {"\x80\x02}q\x01", FileKind::torch_checkpoint, "pickle"},
      {"\x08\0\0\0\0\0\0\0{}      "s, FileKind::safetensors, "safetensors"},
      {"\x08\0\0\0\0\0\0\0      {}"s, FileKind::safetensors, "safetensors"},
      {"\x80\x02\0\0\0\0\0\0{\"a\""s, FileKind::safetensors, ""},  // a header of 640 bytes
      {"\0\x08\0\0\0\0\0\0"s + std::string(504, ' '), FileKind::safetensors, ""},
      {"\x1f\x8b\x08", FileKind::packed, "gzip"},
      {"RIFF\x01\0\0\0WEBPVP8 "s, FileKind::other, "WebP"},
      {"RIFF\x01\0\0\0WAVE"s, FileKind::unknown, ""},
      {"GIF89a", FileKind::other, "GIF"},
      {"II*\0"s, FileKind::other, "TIFF"},
      {std::string(257, '\0') + "ustar", FileKind::packed, "tar"},
  };
  for (const auto& [bytes, kind, name] : files) {
    EXPECT_EQ(content(bytes).kind, kind) << bytes;
    EXPECT_TRUE(says(std::string(content(bytes).name), {name})) << bytes;
  }
}

// Both begin with data.pkl; what tells them apart stands at the end, in the list of contents.
TEST(FileKind, TellsScriptsFromCheckpointsOfPyTorch) {
  const testing::TemporaryFolder folder;
  const auto kind = [&](const std::vector<std::string>& names) {
    folder.write("file", zip_of(names));
    return content_of_file(folder / "file").kind;
  };
  EXPECT_EQ(kind({"net/data.pkl", "net/data/0", "net/version"}), FileKind::torch_checkpoint);
  EXPECT_EQ(kind({"net/data.pkl", "net/data/0", "net/code/__torch__.py", "net/constants.pkl"}),
            FileKind::torch_script);
  EXPECT_EQ(kind({"weights.npy"}), FileKind::packed);
  EXPECT_EQ(kind({"net/.format_version", "net/data.pkl"}), FileKind::torch_checkpoint);
  EXPECT_EQ(kind({"readme.txt", "data/code/a"}), FileKind::packed);
  EXPECT_EQ(content_of_file(folder / "nothing").kind, FileKind::unknown);
  EXPECT_EQ(content_of_file(folder.path()).kind, FileKind::unknown);
}

TEST(FileKind, OfEveryCutIsNoCrash) {
  for (const auto& file : {zip_of({"net/data.pkl", "net/code/a.py"}), "\x80\x02\x8a\x0a"s,
                           "RIFF\x01\0\0\0WEBP"s, "\x08\0\0\0\0\0\0\0{}"s}) {
    for (std::size_t size = 0; size <= file.size(); ++size)
      (void)content(file.substr(0, size), file.substr(size));
  }
}

TEST(FileKind, MessagesSayWhatToDo) {
  EXPECT_EQ(other_file_text(content("<html>"), ""),
            "it is an HTML page: the download went wrong, fetch the file again");
  EXPECT_TRUE(says(other_file_text(content("version https://git-lfs.github.com/spec/v1"), ""),
                   {"git lfs pull"}));
  EXPECT_TRUE(says(other_file_text(content("PK\x03\x04"), ""), {"a zip archive; unpack"}));
  EXPECT_EQ(other_file_text(content("?"), "its first bytes are odd"), "its first bytes are odd");
}

TEST(FileKind, MissingPathsAreSaidToBeRelativeToTheCurrentFolder) {
  const auto here = std::filesystem::current_path().string();
  EXPECT_EQ(missing_path_text("data/nothing"),
            "data/nothing does not exist in the current folder, " + here);
  EXPECT_EQ(missing_path_text("/nothing"), "/nothing does not exist");
}

}  // namespace
}  // namespace kolo
