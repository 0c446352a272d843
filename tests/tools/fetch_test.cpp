// Downloads from a server in this process.
#include "kolo/tools/data_sets.h"

#include <cstdlib>
#include <future>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "support/errors.h"
#include "support/http_server.h"
#include "support/matchers.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

std::string noise(std::size_t bytes) {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < bytes) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
    text.push_back(static_cast<char>(state >> 24));
  }
  return text;
}

class Fetch : public ::testing::Test {
 protected:
  Fetch() {
    // A proxy that the environment names would get requests to the loopback interface.
    ::setenv("no_proxy", "*", 1);
    serve("one", noise(300000));
    serve("two", "a small file");
    dataset.name = "test";
    dataset.url = server.url();
  }

  // Puts a file on the server and into the data set.
  void serve(const std::string& name, const std::string& content) {
    server.serve("/" + name, {.content = content});
    const auto copy = scratch.write("copy", content);
    dataset.files.push_back({name, md5_of_file(copy), std::ssize(content)});
    contents[name] = content;
  }

  FetchResult fetch(const std::string& url = "") {
    return fetch_dataset(dataset, {.folder = folder / "data",
                                   .url = url,
                                   .notice = [&](const std::string& text) { notices += text; }});
  }

  std::string rejection(const std::string& url = "") {
    return message_of<Error>([&] { (void)fetch(url); });
  }

  [[nodiscard]] fs::path file(const std::string& name) const { return folder / ("data/" + name); }

  void expect_all_there() {
    for (const auto& [name, content] : contents) EXPECT_EQ(read_text_file(file(name)), content);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder / "data"), fs::directory_iterator()),
              std::ssize(contents))
        << "and nothing else";
  }

  TemporaryFolder folder, scratch;
  HttpServer server;
  RemoteDataset dataset;
  std::map<std::string, std::string> contents;
  std::string notices;
};

TEST_F(Fetch, BringsEveryFileOnce) {
  const auto first = fetch();
  EXPECT_FALSE(first.was_there);
  EXPECT_EQ(first.bytes_fetched, 300012);
  EXPECT_EQ(first.folder, folder / "data");
  expect_all_there();
  const auto second = fetch();
  EXPECT_TRUE(second.was_there);
  EXPECT_EQ(second.bytes_fetched, 0);
  EXPECT_THAT(server.requests(), SizeIs(2));
}

TEST_F(Fetch, GoesOnAfterACutConnection) {
  server.serve("/one", {.content = contents["one"], .cuts = 2, .cut_bytes = 100000});
  EXPECT_EQ(fetch().bytes_fetched, 300012);
  expect_all_there();
  std::vector<std::int64_t> firsts;
  for (const auto& request : server.requests()) {
    if (request.path == "/one") firsts.push_back(request.first);
  }
  EXPECT_THAT(firsts, ::testing::ElementsAre(0, 100000, 200000));
  EXPECT_TRUE(says(notices, {"going on"}));
}

TEST_F(Fetch, GoesOnWhereAnEarlierProcessEndedOnceTheServerIsThere) {
  folder.write("data/one.part", contents["one"].substr(0, 123456));
  EXPECT_TRUE(says(rejection("http://127.0.0.1:1"), {"127.0.0.1:1/one"}));
  server.serve("/one", {.status = 403});
  EXPECT_TRUE(says(rejection(), {"403"}));
  server.serve("/one", {.content = contents["one"]});
  EXPECT_EQ(fetch().bytes_fetched, 300012 - 123456);
  expect_all_there();
  EXPECT_EQ(server.requests().front().first, 123456);
}

TEST_F(Fetch, BeginsAnewWhereTheServerKnowsNoRanges) {
  folder.write("data/one.part", contents["one"].substr(0, 123456));
  server.serve("/one", {.content = contents["one"], .ranges = false});
  fetch();
  expect_all_there();
}

TEST_F(Fetch, KeepsNoFileWithAWrongSumAndBeginsAnew) {
  folder.write("data/one.part", noise(200).substr(100));
  EXPECT_TRUE(says(rejection(),
                   {server.url() + "/one", "MD5", dataset.files[0].md5, "not kept", "try again"}));
  EXPECT_FALSE(fs::exists(file("one")));
  EXPECT_FALSE(fs::exists(file("one.part")));
  fetch();
  expect_all_there();
  fs::remove(file("two"));
  folder.write("data/two.part", "longer than the file");
  fetch();
  expect_all_there();
}

TEST_F(Fetch, RefusesFilesOfAnotherLength) {
  server.serve("/one", {.content = contents["one"] + "more"});
  EXPECT_TRUE(says(rejection(), {"longer than expected"}));
  fs::remove_all(folder / "data");
  server.serve("/one", {.content = "less"});
  for (const std::string beginning : {"", "longer"}) {
    folder.write("data/one.part", beginning);
    EXPECT_TRUE(says(rejection(), {"has not the 300000 bytes"}));
    EXPECT_FALSE(fs::exists(file("one")));
    EXPECT_FALSE(fs::exists(file("one.part")));
  }
}

TEST_F(Fetch, SaysWhatTheServerSays) {
  server.serve("/two", {.status = 403});
  EXPECT_TRUE(says(rejection(), {"/two", "403", "--url"}));
  EXPECT_EQ(read_text_file(file("one")), contents["one"]) << "what came stays";
  EXPECT_FALSE(fs::exists(file("two.part")));
  EXPECT_TRUE(says(rejection(server.url() + "/nowhere"), {"404"}));
}

TEST_F(Fetch, GivesUpAServerThatOnlyFails) {
  server.serve("/one", {.content = contents["one"], .cuts = 1000, .cut_bytes = 0});
  EXPECT_TRUE(says(rejection(), {"/one"}));
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST_F(Fetch, RefusesAddressesThatAreNone) {
  for (const std::string url : {"ftp://127.0.0.1", "gopher://x", "::"}) {
    EXPECT_TRUE(says(message_of<InputError>([&] { (void)fetch(url); }), {"is no address"}));
  }
}

TEST_F(Fetch, TakesAnotherAddress) {
  dataset.url = "http://127.0.0.1:1/nowhere";
  for (const auto& [name, content] : contents)
    server.serve("/mirror/" + name, {.content = content});
  fetch(server.url() + "/mirror/");
  expect_all_there();
  fs::remove_all(folder / "data");
  const std::string mirror = "mir'ror[1]{2}";
  for (const auto& [name, content] : contents) scratch.write(mirror + "/" + name, content);
  fetch("file://" + (scratch / mirror).string());
  expect_all_there();
}

TEST_F(Fetch, NamesAProgramThatIsMissing) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", scratch.path().c_str(), 1);
  const auto without_curl = message_of<InputError>([&] { (void)fetch(); });
  const auto without_md5sum = message_of<InputError>([&] { (void)md5_of_file(scratch / "copy"); });
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(says(without_curl, {"no curl in PATH"}));
  EXPECT_TRUE(says(without_md5sum, {"no md5sum in PATH"}));
}

// A data set that is one archive, made by tar.
class FetchArchive : public Fetch {
 protected:
  // `files` by their paths in the archive; `shell`: commands in its folder before it is made.
  void serve_archive(const std::map<std::string, std::string>& files,
                     const std::string& shell = "true") {
    const TemporaryFolder made;
    for (const auto& [path, content] : files) made.write(path, content);
    const auto end = testing::run_process(
        {"sh", "-c", shell + " && tar -czf set.tar.gz *", made.path().string()},
        {.working_directory = made.path()});
    ASSERT_EQ(end.exit_code, 0) << end.errors;
    dataset.files.clear();
    serve("set.tar.gz", read_text_file(made / "set.tar.gz"));
    dataset.archive_folder = "inner";
    dataset.members = {"a.bin", "b.bin"};
  }

  void expect_unpacked() {
    EXPECT_EQ(read_text_file(file("inner/a.bin")), "first");
    EXPECT_EQ(read_text_file(file("inner/b.bin")), noise(100000));
    EXPECT_FALSE(fs::exists(file("set.tar.gz")));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder / "data"), fs::directory_iterator()), 1);
  }
};

TEST_F(FetchArchive, IsUnpackedAndRemovedAlsoWhereAFileWasLacking) {
  serve_archive({{"inner/a.bin", "first"}, {"inner/b.bin", noise(100000)}});
  folder.write("data/inner/b.bin", "old");
  EXPECT_EQ(fetch().folder, folder / "data/inner");
  expect_unpacked();
  EXPECT_TRUE(fetch().was_there);
}

TEST_F(FetchArchive, TakesNothingButFilesOfTheFolder) {
  const auto expect_rejected = [&](const std::string& shell) {
    serve_archive({{"inner/a.bin", "first"}, {"inner/b.bin", "second"}, {"outside", "x"}}, shell);
    EXPECT_TRUE(says(rejection(), {"no b.bin came with test"}));
    EXPECT_FALSE(fs::exists(file("inner")));
    EXPECT_FALSE(fs::exists(file("outside")));
    fs::remove_all(folder / "data");
  };
  expect_rejected("rm inner/b.bin");
  expect_rejected("ln -sf /etc/passwd inner/b.bin");
  expect_rejected("rm inner/b.bin && mkdir inner/b.bin");
}

TEST_F(FetchArchive, ThatIsDamagedOrCutShortIsNotUnpacked) {
  serve_archive({{"inner/a.bin", "first"}, {"inner/b.bin", noise(100000)}});
  const auto half = contents["set.tar.gz"].substr(0, 50000);
  for (const auto& [content, reason] : {std::pair(half, "tar cannot unpack"),
                                        {std::string("no archive"), "no a.bin came with test"}}) {
    dataset.files.clear();
    serve("set.tar.gz", content);
    EXPECT_TRUE(says(rejection(), {reason}));
    EXPECT_FALSE(fs::exists(file("inner")));
    fs::remove_all(folder / "data");
  }
}

// Each call opens the lock's file itself, so threads exclude each other as processes do.
TEST_F(FetchArchive, SeveralAtOnceUnpackItOnceInFoldersOfAnyName) {
  serve_archive({{"inner/a.bin", "first"}, {"inner/b.bin", noise(100000)}});
  server.serve("/set.tar.gz", {.content = contents["set.tar.gz"], .pause_ms = 200});
  const auto before = fs::current_path();
  fs::current_path(folder.path());  // a relative path, which tar might take for a host's
  std::vector<std::future<FetchResult>> results(4);
  for (auto& result : results)
    result = std::async(std::launch::async,
                        [&] { return fetch_dataset(dataset, {.folder = "host:it's data"}); });
  int waited = 0;
  for (auto& result : results) waited += result.get().was_there ? 1 : 0;
  fs::current_path(before);
  EXPECT_EQ(waited, 3);
  EXPECT_THAT(server.requests(), SizeIs(1));
  fs::rename(folder / "host:it's data", folder / "data");
  expect_unpacked();
}

TEST(RemoteDatasets, AreKnownByName) {
  EXPECT_EQ(remote_dataset("cifar10").files.front().md5, "c32a1d4ab5d03f1284b67883e8d87530");
  EXPECT_EQ(remote_dataset("mnist").files.size(), 4U);
  EXPECT_TRUE(says(message_of<InputError>([] { (void)remote_dataset("imagenet"); }),
                   {"mnist, fashion-mnist, cifar10"}));
}

TEST(Md5, IsThatOfTheStandard) {
  const TemporaryFolder folder;
  EXPECT_EQ(md5_of_file(folder.write("empty", "")), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_of_file(folder.write("abc", "abc")), "900150983cd24fb0d6963f7d28e17f72");
}

}  // namespace
}  // namespace kolo::testing
