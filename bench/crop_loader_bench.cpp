// Times the crop loader of the cosmology data: random crops of a box in an HDF5 file, turned as the
// tutorial turns them, in batches.
//
//   crop_loader_bench [--file BOX.h5] [--box 256] [--crop 64] [--batch 4] [--seconds 5]
//                     [--rotations tutorial] [--workers 0,1,2] [--python python3 | --no-peer]
//                     [--json]
//
// Makes the box unless it is there; without --file it is made and removed again. Everything runs on
// one core: crops per second are those of a core, by the clock and by the processor's time, the
// workers' included. bench/peers/crop_loader.py does the same with h5py and PyTorch's DataLoader
// and is run in between, with the same box; the ratio is of the better of each one's numbers of
// workers.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>

#include <sched.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/data/box_files.h"
#include "kolo/data/loader.h"
#include "kolo/data/nbody.h"

namespace kolo {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Options {
  std::string file;
  std::int64_t box = 256, crop = 64, batch = 4;
  double seconds = 5;
  std::string rotations = "tutorial";
  std::vector<int> workers{0, 1, 2};
  std::string python = "python3";
  bool no_peer = false;
  bool json = false;
};

void write_random_box(const fs::path& file, std::int64_t size) {
  SimulationBox box{.size = size};
  std::mt19937 random(1);
  const auto cells = static_cast<std::size_t>(size * size * size);
  const auto fill = [&](std::vector<float>& field, std::int64_t channels) {
    field.resize(static_cast<std::size_t>(channels) * cells);
    for (auto& value : field) value = static_cast<float>(random()) / 4294967296.F - .5F;
  };
  fill(box.nbody, nbody_channels);
  fill(box.hydro, hydro_channels);
  write_box_hdf5(box, file);
}

// The box's file; removed at the end if it was made for this run only.
class BoxOfRun {
 public:
  explicit BoxOfRun(const Options& options) : is_temporary_(options.file.empty()) {
    path_ = options.file;
    if (is_temporary_) {
      std::string name = fs::temp_directory_path() / "kolo-crops-XXXXXX";
      if (mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder");
      path_ = fs::path(name) / "box.h5";
    }
    if (!fs::exists(path_)) write_random_box(path_, options.box);
  }
  BoxOfRun(const BoxOfRun&) = delete;
  BoxOfRun& operator=(const BoxOfRun&) = delete;
  ~BoxOfRun() {
    std::error_code ignored;
    if (is_temporary_) fs::remove_all(path_.parent_path(), ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  bool is_temporary_;
  fs::path path_;
};

// Binds this process, and those that it starts, to one of its processors.
void keep_to_one_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(allowed_cpus().back()), &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) throw Error("cannot keep to one processor");
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Rotations rotations_named(const std::string& name) {
  if (name == "none") return Rotations::none;
  if (name == "tutorial") return Rotations::tutorial;
  return name == "proper" ? Rotations::proper : Rotations::vector;
}

// Crops per second with this number of workers, after one batch to warm up.
Json time_loader(const std::shared_ptr<const NbodyDataset>& dataset, const Options& options,
                 int workers) {
  Loader loader(dataset, DistributedSampler(dataset->size(), 0, 1),
                {.batch_size = options.batch, .workers = workers, .prefetch = 4});
  loader.start_epoch(0);
  for (int i = 0; i < 2 && loader.next(); ++i) {
  }
  const Stopwatch watch;
  const double begin = processor_seconds();
  std::int64_t crops = 0;
  while (watch.seconds() < options.seconds) {
    const auto batch = loader.next();
    if (!batch) {
      loader.start_epoch(1);
      continue;
    }
    crops += batch->input.size(0);
  }
  const auto count = static_cast<double>(crops);
  return {{"workers", workers},
          {"crops_a_second", count / watch.seconds()},
          {"crops_a_processor_second", count / (processor_seconds() - begin)}};
}

// JSON that the peer prints, with the same members as ours. Error: it can't run.
Json run_peer(const Options& options, const fs::path& file) {
  std::string workers;
  for (const int count : options.workers) {
    workers += fmt::format("{}{}", workers.empty() ? "" : ",", count);
  }
  const auto command = fmt::format("{} '{}' '{}' --crop {} --batch {} --seconds {} --workers {}",
                                   options.python, KOLO_CROP_LOADER_PEER, file.string(),
                                   options.crop, options.batch, options.seconds, workers);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw Error(fmt::format("{} can't be started", options.python));
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    text += static_cast<char>(c);
  }
  const auto json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("runs")) {
    throw Error(
        fmt::format("the peer didn't run: {}; name a Python that has h5py and PyTorch with "
                    "--python, or leave it out with --no-peer",
                    text.empty() ? "it says why above" : text));
  }
  return json;
}

double best_of(const Json& runs, const char* key) {
  double best = 0;
  for (const auto& run : runs) best = std::max(best, run[key].get<double>());
  return best;
}

void print(const char* name, const Json& runs) {
  for (const auto& run : runs) {
    std::cout << fmt::format("{:18} {} workers  {:8.1f} crops/s  {:8.1f} a processor second\n",
                             name, run["workers"].get<int>(), run["crops_a_second"].get<double>(),
                             run["crops_a_processor_second"].get<double>());
  }
}

void run(const Options& options) {
  keep_freed_memory();
  torch::set_num_threads(1);
  const BoxOfRun box(options);
  keep_to_one_core();
  const auto dataset =
      std::make_shared<NbodyDataset>(NbodyOptions{.file = box.path(),
                                                  .crop = options.crop,
                                                  .samples = 1 << 20,
                                                  .rotations = rotations_named(options.rotations)});
  Json ours = Json::array();
  for (const int workers : options.workers) ours.push_back(time_loader(dataset, options, workers));
  const Json peer = options.no_peer ? Json() : run_peer(options, box.path());
  Json result{{"box", dataset->box_size()},     {"crop", options.crop}, {"batch", options.batch},
              {"rotations", options.rotations}, {"kolo", ours},         {"peer", peer}};
  const bool has_peer = peer.contains("runs");
  for (const auto* const key : {"crops_a_second", "crops_a_processor_second"}) {
    if (has_peer) {
      result["ratio"][key] = best_of(ours, key) / best_of(peer["runs"], key);
    }
  }
  if (options.json) {
    std::cout << result.dump() << "\n";
    return;
  }
  std::cout << fmt::format("box of {}^3, crops of {}^3, batches of {}, rotations {}, one core\n",
                           dataset->box_size(), options.crop, options.batch, options.rotations);
  print("kolo", ours);
  if (!has_peer) {
    std::cout << "without the peer\n";
    return;
  }
  print("h5py + DataLoader", peer["runs"]);
  std::cout << fmt::format("{}: kolo is faster by {:.1f} (clock), {:.1f} (processor's time)\n",
                           peer["versions"].get<std::string>(),
                           result["ratio"]["crops_a_second"].get<double>(),
                           result["ratio"]["crops_a_processor_second"].get<double>());
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  kolo::Options options;
  CLI::App app("Times the crop loader of the cosmology data on one core.");
  app.add_option("--file", options.file, "the box; made if it is not there");
  app.add_option("--box", options.box, "cells per edge of a box that is made")
      ->check(CLI::Range(1, 2048));
  app.add_option("--crop", options.crop, "cells per edge")->check(CLI::Range(1, 2048));
  app.add_option("--batch", options.batch, "crops")->check(CLI::Range(1, 4096));
  app.add_option("--seconds", options.seconds, "for each measurement");
  app.add_option("--rotations", options.rotations, "the peer's are the tutorial's")
      ->check(CLI::IsMember({"none", "tutorial", "vector", "proper"}));
  app.add_option("--workers", options.workers, "numbers of workers to try")->delimiter(',');
  app.add_option("--python", options.python, "with h5py, numpy and torch");
  app.add_flag("--no-peer", options.no_peer, "leave h5py and PyTorch out");
  app.add_flag("--json", options.json, "one JSON object on standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    kolo::run(options);
  } catch (const std::exception& error) {
    std::cerr << "crop_loader_bench: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
