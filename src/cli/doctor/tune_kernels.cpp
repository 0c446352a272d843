#include "cli/doctor/tune_kernels.h"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/config/factories.h"
#include "parallel/compute_threads.h"
#include "run/kernel_cache.h"

namespace kolo {

namespace {

// "direct 5.21", the fastest first.
std::string times_of(const KernelChoice& choice) {
  std::vector<std::pair<double, std::string>> times;
  for (const auto& [kernel, milliseconds] : choice.milliseconds)
    if (kernel != choice.kernel) times.emplace_back(milliseconds, kernel);
  std::sort(times.begin(), times.end());
  std::string text;
  for (const auto& [milliseconds, kernel] : times)
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", kernel, milliseconds);
  return text;
}

void print(const KernelChoices& choices) {
  std::size_t width = 0;
  for (const auto& choice : choices) width = std::max(width, choice.first.size());
  std::cout << fmt::format("{:{}}  {:>10}  {:>9}  others, ms\n", "convolution", width, "kernel",
                           "ms");
  for (const auto& [convolution, choice] : choices) {
    std::cout << fmt::format("{:{}}  {:>10}  {:>9.2f}  {}\n", convolution, width, choice.kernel,
                             choice.milliseconds.at(choice.kernel), times_of(choice));
  }
}

}  // namespace

int tune_kernels(const ConfigOptions& options, int ranks) {
  const auto config = load_run_config(options.source());
  const auto cache = KernelCache::of_this_processor();
  if (!cache)
    throw InputError(
        "doctor: --tune: neither HOME nor XDG_CACHE_HOME says where to keep what is "
        "measured; set one of them");
  parallel::set_compute_threads(config.device.intra_threads > 0
                                    ? config.device.intra_threads
                                    : detect_cpu_limits().cores() / ranks);
  const auto batch = batch_size_of(config.training, ranks);
  const auto datasets = make_synthetic_datasets(config, batch * ranks);
  const auto network = make_network(config, datasets.training->layout());
  const KernelQuestion question{
      config, datasets, *network, {}, [](const std::string& text) { std::cout << text << '\n'; }};
  const auto choices = renew_kernels(question, ranks, *cache);
  if (choices.empty()) {
    std::cout << fmt::format("{} has no convolutions that kolo has several kernels for\n",
                             config.model.name);
    return 0;
  }
  print(choices);
  std::cout << fmt::format("kept in {}\n", cache->file().string());
  return 0;
}

}  // namespace kolo
