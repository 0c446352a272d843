#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/config/derived_settings.h"
#include "kolo/nn/kernel_choices.h"

namespace kolo {

// The choices of kernels that were made on processors of one type, in a file of the user's:
// $XDG_CACHE_HOME/kolo/kernels-PROCESSOR.json, below ~/.cache where that is unset.
class KernelCache {
 public:
  explicit KernelCache(std::filesystem::path file) : file_(std::move(file)) {}

  // None where there is no home to keep it in.
  [[nodiscard]] static std::optional<KernelCache> of_this_processor();

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

  // What this kolo, with this oneDNN, has measured; nothing where there is no such file, or it is
  // another version's, or damaged.
  [[nodiscard]] KernelChoices read() const;

  // Reads, changes and writes them while no other process does. `waits` is asked again and again
  // while another one does, which may be measuring; false: this one gives up, and changes nothing.
  // Error where the file can't be written.
  void update(
      const std::function<void(KernelChoices&)>& change,
      const std::function<bool()>& waits = [] { return true; }) const;

 private:
  std::filesystem::path file_;
};

// "amd-epyc-9654-25-17": name, family and model, as /proc/cpuinfo has them; "processor" where it
// has none.
[[nodiscard]] std::string processor_name(const std::string& cpuinfo);
// Of this machine.
[[nodiscard]] std::string processor_name();

// For whom kernels are chosen.
struct KernelQuestion {
  const RunConfig& config;
  const Datasets& datasets;
  Network& network;
  KernelChoices own = {};  // of a run that goes on, so that it comes to the same bits
  // How many were tried, and where they can't be kept.
  std::function<void(const std::string&)> say = [](const std::string&) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  // Whether the run is to stop, and so has no use for the kernels that are not measured yet.
  std::function<bool()> stop_requested = [] { return false; };
};

// What rank 0 has found, on all ranks; null where the configuration wants none, or computes on
// GPUs. Rank 0 goes by the question's own choices, then by the cache, and measures the rest for the
// cache, one process of a user's at a time; without one it takes the usual kernels. Collective.
[[nodiscard]] std::shared_ptr<const KernelChoices> choose_kernels(const KernelQuestion& question,
                                                                  const Communicator& communicator);

// Measures all of the network's anew, for the batch of one of so many ranks, and keeps that in the
// cache.
KernelChoices renew_kernels(const KernelQuestion& question, int ranks, const KernelCache& cache);

}  // namespace kolo
