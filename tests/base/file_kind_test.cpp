#include "kolo/base/file_kind.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "support/temporary_folder.h"

namespace kolo {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

FileKind kind_of(const std::string& beginning, const std::string& ending = {}) {
  return file_kind(std::as_bytes(std::span(beginning)), std::as_bytes(std::span(ending)));
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
  const std::vector<std::pair<std::string, FileKind>> files{
      {"", FileKind::empty},
      {"hello", FileKind::unknown},
      {"\xef\xbb\xbf\n <!DOCTYPE HTML PUBLIC", FileKind::html_page},
      {"<HTML>", FileKind::html_page},
      {"<?xml version=\"1.0\"?>\n<!DOCTYPE html>", FileKind::html_page},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied", FileKind::xml_document},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", FileKind::git_lfs_pointer},
      {R"({"model": 1})", FileKind::json},
      {R"({ "metadata": {"total_size": 5}, "weight_map": {)", FileKind::safetensors_index},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", FileKind::torch_old_pickle},
      {"\x80\x02}q\x01", FileKind::pickle},
      {"\x08\0\0\0\0\0\0\0{}      "s, FileKind::safetensors},
      {"\x08\0\0\0\0\0\0\0      {}"s, FileKind::safetensors},
      {"\x80\x02\0\0\0\0\0\0{\"a\""s, FileKind::safetensors},  // a header of 640 bytes
      {"\x1f\x8b\x08", FileKind::gzip},
      {"RIFF\x01\0\0\0WEBPVP8 "s, FileKind::webp},
      {"RIFF\x01\0\0\0WAVE"s, FileKind::unknown},
      {"GIF89a", FileKind::gif},
      {"II*\0"s, FileKind::tiff},
      {std::string(257, '\0') + "ustar", FileKind::tar},
  };
  for (const auto& [bytes, kind] : files) EXPECT_EQ(kind_of(bytes), kind) << bytes;
}

// Both begin with data.pkl; what tells them apart stands at the end, in the list of contents.
TEST(FileKind, TellsScriptsFromCheckpointsOfPyTorch) {
  const testing::TemporaryFolder folder;
  const auto kind = [&](const std::vector<std::string>& names) {
    folder.write("file", zip_of(names));
    return file_kind_at(folder / "file");
  };
  EXPECT_EQ(kind({"net/data.pkl", "net/data/0", "net/version"}), FileKind::torch_checkpoint);
  EXPECT_EQ(kind({"net/data.pkl", "net/data/0", "net/code/__torch__.py", "net/constants.pkl"}),
            FileKind::torch_script);
  EXPECT_EQ(kind({"weights.npy"}), FileKind::numpy_archive);
  EXPECT_EQ(kind({"net/.format_version", "net/data.pkl"}), FileKind::torch_checkpoint);
  EXPECT_EQ(kind({"readme.txt", "data/code/a"}), FileKind::zip_archive);
  EXPECT_EQ(file_kind_at(folder / "nothing"), FileKind::unknown);
  EXPECT_EQ(file_kind_at(folder.path()), FileKind::unknown);
}

TEST(FileKind, OfEveryCutIsNoCrash) {
  for (const auto& file : {zip_of({"net/data.pkl", "net/code/a.py"}), "\x80\x02\x8a\x0a"s,
                           "RIFF\x01\0\0\0WEBP"s, "\x08\0\0\0\0\0\0\0{}"s}) {
    for (std::size_t size = 0; size <= file.size(); ++size)
      (void)kind_of(file.substr(0, size), file.substr(size));
  }
}

TEST(FileKind, MessagesSayWhatToDo) {
  EXPECT_THAT(other_file_text(FileKind::html_page, ""),
              AllOf(HasSubstr("an HTML page"), HasSubstr("the download went wrong")));
  EXPECT_THAT(other_file_text(FileKind::git_lfs_pointer, ""), HasSubstr("git lfs pull"));
  EXPECT_THAT(other_file_text(FileKind::zip_archive, ""), HasSubstr("unpack"));
  EXPECT_EQ(other_file_text(FileKind::unknown, "its first bytes are odd"),
            "its first bytes are odd");
}

TEST(FileKind, MissingPathsAreSaidToBeRelativeToTheCurrentFolder) {
  const auto here = std::filesystem::current_path().string();
  EXPECT_EQ(missing_path_text("data/nothing"),
            "data/nothing does not exist in the current folder, " + here);
  EXPECT_EQ(missing_path_text("/nothing"), "/nothing does not exist");
}

}  // namespace
}  // namespace kolo
