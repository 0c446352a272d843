// What is kept of measured kernels, by processors' types.
#include "run/kernel_cache.h"

#include <cstdlib>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "kolo/base/file.h"
#include "kolo/nn/convolution.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

KernelChoice choice(double milliseconds) {
  return {"direct", {{"direct", milliseconds}}};
}

class KernelCacheTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  KernelCache cache_{folder_ / "cache" / "kernels-x.json"};
};

TEST_F(KernelCacheTest, KeepsWhatItIsGiven) {
  EXPECT_EQ(cache_.read(), KernelChoices());
  cache_.update([](KernelChoices& choices) { choices["a"] = choice(1); });
  cache_.update([](KernelChoices& choices) { choices["b"] = choice(2); });
  EXPECT_EQ(cache_.read(), (KernelChoices{{"a", choice(1)}, {"b", choice(2)}}));
}

TEST_F(KernelCacheTest, LosesNothingWhereSeveralChangeItAtOnce) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 5; ++j)
        cache_.update([&](KernelChoices& choices) {
          choices[std::to_string(i) + "-" + std::to_string(j)] = choice(i + j);
        });
    });
  }
  threads.clear();
  EXPECT_EQ(cache_.read().size(), 20);
}

TEST_F(KernelCacheTest, WaitsForAnotherOnlyAsLongAsItIsToldTo) {
  int asked = 0;
  cache_.update([&](KernelChoices&) {
    cache_.update([](KernelChoices& choices) { choices["a"] = choice(1); },
                  [&] { return ++asked < 3; });
  });
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(cache_.read(), KernelChoices());
}

TEST_F(KernelCacheTest, ForgetsWhatIsDamagedOrAnotherVersions) {
  cache_.update([](KernelChoices& choices) { choices["a"] = choice(1); });
  auto text = read_text_file(cache_.file());
  const auto at = text.find("\"kolo\"");
  ASSERT_NE(at, std::string::npos);
  write_file_atomically(cache_.file(), text.substr(0, at));
  EXPECT_EQ(cache_.read(), KernelChoices());
  text.replace(text.find(':', at) + 2, 1, "\"0");
  write_file_atomically(cache_.file(), text);
  EXPECT_EQ(cache_.read(), KernelChoices());
  cache_.update([](KernelChoices& choices) { choices["b"] = choice(2); });
  EXPECT_EQ(cache_.read(), (KernelChoices{{"b", choice(2)}}));
}

// The cache of the user whom the test is.
class OwnCache {
 public:
  explicit OwnCache(const std::filesystem::path& folder) {
    if (const char* const value = std::getenv(name)) before_ = value;
    ::setenv(name, folder.c_str(), 1);
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;
  ~OwnCache() {
    if (before_)
      ::setenv(name, before_->c_str(), 1);
    else
      ::unsetenv(name);
  }

 private:
  static constexpr const char* name = "XDG_CACHE_HOME";
  std::optional<std::string> before_;
};

TEST_F(KernelCacheTest, WhoHasNothingToTryWaitsForNobody) {
  if (convolution_implementation(2).empty())
    GTEST_SKIP() << "kolo was built without oneDNN (libdnnl-dev), so there are no kernels to try";
  const OwnCache own(folder_ / "home");
  const auto config = load_run_config(
      {folder_.write("cnn.yaml",
                     "{data: {name: dummy, n_train: 8, input_shape: [3, 8, 8]}, model: "
                     "{name: cnn}, optimizer: {name: sgd}, training: {batch_size: 4}}\n"),
       {},
       {},
       {},
       folder_ / "run"});
  const auto datasets = make_datasets(config);
  const auto network = make_network(config, datasets.training->layout());
  std::vector<std::string> said;
  KernelQuestion question{config, datasets, *network};
  question.say = [&](const std::string& text) { said.push_back(text); };
  const auto first = choose_kernels(question, Communicator::solo());
  EXPECT_FALSE(first->empty());
  EXPECT_EQ(said.size(), 2U);  // trying, tried
  said.clear();
  question.stop_requested = [] { return true; };  // who waits after all, gives up
  KernelCache::of_this_processor().value().update(
      [&](KernelChoices&) { EXPECT_EQ(*choose_kernels(question, Communicator::solo()), *first); });
  EXPECT_TRUE(said.empty()) << said.front();
}

TEST(ProcessorName, HasNameFamilyAndModel) {
  EXPECT_EQ(processor_name("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: "
                           "143\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\nstepping\t: 8\n\n"
                           "processor\t: 1\nmodel name\t: other\n"),
            "intel-r-xeon-r-platinum-8480-6-143");
  EXPECT_EQ(processor_name("processor : 0\nBogoMIPS : 50\n"), "processor");
  EXPECT_EQ(processor_name(""), "processor");
}

}  // namespace
}  // namespace kolo::testing
