// Runs the fuzzers' targets on every file of the corpus, its pieces and variants, with any
// compiler.
#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "fuzz_targets.h"
#include "kolo/base/file.h"

namespace kolo::fuzz {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class Replay : public ::testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(Corpus, Replay, ::testing::ValuesIn(targets),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Replay, ReadsOrRejectsEveryFile) {
  std::mt19937 random(1);
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(KOLO_CORPUS) / GetParam().name)) {
    SCOPED_TRACE(entry.path());
    const auto file = read_text_file(entry.path());
    EXPECT_NO_THROW(GetParam().read(bytes_of(file)));
    for (int round = 0; round < 20 && !file.empty(); ++round) {
      auto variant = file.substr(0, file.size() - random() % file.size() / 4);
      for (int i = 0; i < 3; ++i) {
        variant[random() % variant.size()] = static_cast<char>(random());
      }
      EXPECT_NO_THROW(GetParam().read(bytes_of(variant)));
    }
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace kolo::fuzz
