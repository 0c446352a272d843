#include <array>
#include <tuple>
#include <vector>

#include <sys/stat.h>

#include "base/file_failure.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/file_kind.h"
#include "support/errors.h"
#include "support/file_size_limit.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;
using testing::FileSizeLimit;
using testing::message_of;
using testing::TemporaryFolder;

TEST(AtomicFile, AppearsWholeOnCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a.txt");
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.txt"));
  file.commit();
  EXPECT_EQ(read_text_file(folder / "a.txt"), "one two");
}

TEST(AtomicFile, WithoutCommitTheOldFileStaysAndNothingIsLeft) {
  const TemporaryFolder folder;
  folder.write("a.txt", "old");
  { AtomicFile(folder / "a.txt").write("new"); }
  EXPECT_EQ(read_text_file(folder / "a.txt"), "old");
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(AtomicFile, ThatCannotHaveItsNameLeavesNothing) {
  const TemporaryFolder folder;
  folder.write("a.txt/inside", "");
  EXPECT_THROW(write_file_atomically(folder / "a.txt", "new"), Error);
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(AtomicFile, ALimitOfFilesSizesIsNamedWithWhatToDo) {
  const TemporaryFolder folder;
  const FileSizeLimit limit(2048);
  const auto message = message_of<Error>(
      [&] { write_file_atomically(folder / "large.txt", std::string(4000, ' ')); });
  EXPECT_TRUE(says(message, {"large.txt", "File too large", "larger than 2048 bytes (ulimit -f)",
                             "ulimit -f unlimited"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(OpenRegularFile, SaysWhatItFound) {
  const TemporaryFolder folder;
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)open_regular_file(folder.path()); }), {"a folder"}));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)open_regular_file(folder / "pipe"); }),
                   {"not a regular file"}));
  EXPECT_TRUE(says(message_of<Error>([&] { (void)open_regular_file(folder / "none"); }),
                   {"none does not exist"}));
}

TEST(ReadTextFile, ReadsFilesLargerThanItsBlocks) {
  const TemporaryFolder folder;
  std::string text(200001, 'x');
  text.back() = 'y';
  EXPECT_EQ(read_text_file(folder.write("big", text)), text);
}

constexpr std::array<std::string_view, 2> entries = {"file", "inner"};

void fill(const AtomicFolder& folder, std::string_view text) {
  write_file_atomically(folder.aside() / "file", text);
  fs::create_directory(folder.aside() / "inner");
}

TEST(AtomicFolder, AppearsWhenItIsWhole) {
  const TemporaryFolder root;
  const auto path = root / "a/b/made";
  {
    AtomicFolder folder(path.string() + "/");
    fill(folder, "text");
    EXPECT_FALSE(fs::exists(path));
    folder.commit();
  }
  EXPECT_EQ(read_text_file(path / "file"), "text");
  EXPECT_TRUE(fs::is_directory(path / "inner"));
  EXPECT_FALSE(fs::exists(root / "a/b/.made.part"));
}

TEST(AtomicFolder, VanishesWithoutCommit) {
  const TemporaryFolder root;
  { fill(AtomicFolder(root / "made"), "text"); }
  EXPECT_TRUE(fs::is_empty(root.path()));
}

TEST(AtomicFolder, ClearsAwayWhatAKilledProcessLeft) {
  const TemporaryFolder root;
  root.write(".made.part/rest/of/it", "x");
  AtomicFolder folder(root / "made");
  EXPECT_TRUE(fs::is_empty(folder.aside()));
  folder.commit();
  EXPECT_TRUE(fs::is_empty(root / "made"));
}

TEST(AtomicFolder, ReplacesOnlyWhatItMay) {
  const TemporaryFolder root;
  root.write("made/file", "old");
  EXPECT_TRUE(says(message_of<InputError>([&] { AtomicFolder(root / "made"); }),
                   {"made is not empty", "file"}));
  {
    AtomicFolder folder(root / "made", entries);
    fill(folder, "new");
    EXPECT_EQ(read_text_file(root / "made/file"), "old");
    folder.commit();
  }
  EXPECT_EQ(read_text_file(root / "made/file"), "new");
  EXPECT_FALSE(fs::exists(root / ".made.old"));
  root.write("made/thesis", "precious");
  EXPECT_TRUE(says(message_of<InputError>([&] { AtomicFolder(root / "made", entries); }),
                   {"thesis, which would be lost"}));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { AtomicFolder(root / "made/file"); }), {"not a folder"}));
}

TEST(AtomicFolder, IsFilledByOneAtATime) {
  const TemporaryFolder root;
  const AtomicFolder first(root / "made");
  EXPECT_TRUE(says(message_of<InputError>([&] { AtomicFolder(root / "made"); }),
                   {"another process is filling"}));
  EXPECT_TRUE(fs::exists(first.aside()));
}

struct Said {
  std::string text;
  bool is_of_the_name = false;
};

template <typename Step>
Said said_of(const Step& step) {
  try {
    step();
  } catch (const fs::filesystem_error& failure) {
    return {describe(failure), is_of_the_name(failure)};
  }
  return {"nothing was thrown"};
}

TEST(FileFailure, NamesThatTheSystemRefuses) {
  const TemporaryFolder folder;
  const auto too_long = folder / std::string(256, 'a');
  auto said = said_of([&] { (void)fs::exists(too_long); });
  EXPECT_TRUE(said.is_of_the_name);
  EXPECT_THAT(said.text, AllOf(StartsWith("files: cannot look at " + too_long.string()),
                               HasSubstr("too long; a name may have 255 bytes")));
  fs::create_symlink("loop", folder / "loop");
  said = said_of([&] { (void)fs::is_directory(folder / "loop"); });
  EXPECT_TRUE(said.is_of_the_name);
  EXPECT_TRUE(says(said.text, {"a link that leads back to itself"}));
  said = said_of([&] { fs::create_directory(folder.write("file", "") / "below"); });
  EXPECT_TRUE(said.is_of_the_name);
  EXPECT_TRUE(says(said.text, {"has to be a folder"}));
}

TEST(FileFailure, WhatWasTried) {
  const TemporaryFolder folder;
  auto said = said_of([&] { fs::rename(folder / "a", folder / "b"); });
  EXPECT_FALSE(said.is_of_the_name) << "it may have been there before";
  EXPECT_THAT(said.text, StartsWith("files: cannot rename " + (folder / "a").string() + " to " +
                                    (folder / "b").string() + ": No such file or directory; "));
  said = said_of([&] { (void)fs::directory_iterator(folder / "a"); });
  EXPECT_THAT(said.text, AllOf(StartsWith("files: cannot open directory "),
                               Not(HasSubstr("filesystem error"))));
}

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

// Both begin with data.pkl; the list of contents, at the end, tells them apart.
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
