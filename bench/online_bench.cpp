// Measures what a network inside a simulation costs and gives:
//
//   mpirun -n 2 online_bench WHAT [--network linear] [--batch 16] [--steps 2000] [--rounds 5]
//                                 [--level funneled] [--json]
//
//   steps       training steps per second: train(), push() and tick(), and as many programs do it
//               themselves (peers/per_tensor_all_reduce.h). They take turns, after 200 steps each.
//   peer        the last of these in a process of its own: there freed memory goes back
//   infer       inference beside the network's forward pass alone
//   calls       tick() where nothing is trained, and push()
//   memory      beyond the reservoir's capacity; growth with steps, and with networks
//   background  a solver beside training in the background; needs a core more than ranks
//   forgetting  errors with a reservoir and with the newest samples, on a stream that drifts; each
//               round is a seed
//
// The program initializes MPI itself, as a simulation does, with the thread level that is asked
// for.
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kolo/base/enum_names.h"
#include "kolo/comm/session.h"
#include "online/measure.h"
#include "online/networks.h"

namespace kolo {
namespace {

using Measurement = std::vector<Figure> (*)(const OnlineBench&);

const std::map<std::string, Measurement> measurements = {
    {"steps", measure_steps},          {"peer", measure_peer},
    {"infer", measure_inference},      {"calls", measure_calls},
    {"memory", measure_memory},        {"background", measure_background},
    {"forgetting", measure_forgetting}};

struct Options {
  std::string what = "steps", network = "linear", level = "funneled";
  std::int64_t batch = 16, steps = 2000;
  int rounds = 5;
  bool json = false;
};

const std::map<std::string, int> levels = {{"single", MPI_THREAD_SINGLE},
                                           {"funneled", MPI_THREAD_FUNNELED},
                                           {"serialized", MPI_THREAD_SERIALIZED},
                                           {"multiple", MPI_THREAD_MULTIPLE}};

template <typename Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& map) {
  std::vector<std::string> names;
  for (const auto& entry : map) names.push_back(entry.first);
  return names;
}

void print(const Options& options, const std::vector<Figure>& figures, int ranks) {
  if (options.json) {
    nlohmann::ordered_json result = {
        {"what", options.what}, {"ranks", ranks}, {"level", options.level}};
    for (const auto& figure : figures)
      result["figures"].push_back(
          {{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}});
    std::cout << result.dump(2) << '\n';
    return;
  }
  std::cout << fmt::format("{}, {} ranks, MPI_THREAD level {}\n", options.what, ranks,
                           options.level);
  for (const auto& figure : figures) {
    const bool is_large = figure.value >= 1e6;
    std::cout << fmt::format("{:<56}{:>16.{}f} {}\n", figure.name, figure.value, is_large ? 0 : 3,
                             figure.unit);
  }
}

void run(const Options& options) {
  auto session = initialize(MPI_COMM_WORLD);
  {
    const auto ranks = session.communicator();
    const OnlineBench bench{.communicator = MPI_COMM_WORLD,
                            .ranks = ranks,
                            .network = options.network,
                            .batch = options.batch,
                            .steps = options.steps,
                            .rounds = options.rounds};
    const auto figures = measurements.at(options.what)(bench);
    if (ranks.rank() == 0) print(options, figures, ranks.size());
  }
  session.finalize();
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("what", options.what, "is measured")->check(CLI::IsMember(names_of(measurements)));
  app.add_option("--network", options.network, "of steps")->check(CLI::IsMember(timed_networks()));
  app.add_option("--batch", options.batch, "samples per rank and step")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "per round")->check(CLI::Range(2, 1'000'000'000));
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  app.add_option("--level", options.level, "of threads, asked of MPI")
      ->check(CLI::IsMember(names_of(levels)));
  app.add_flag("--json", options.json, "print JSON");
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  kolo::Options options;
  CLI::App app("A network inside a simulation: what it costs");
  kolo::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  int granted = 0;
  if (MPI_Init_thread(&argc, &argv, kolo::levels.at(options.level), &granted) != MPI_SUCCESS)
    return 1;
  int status = 0;
  try {
    kolo::run(options);
  } catch (const std::exception& error) {
    std::cerr << "online_bench: " << error.what() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);
    status = 1;
  }
  MPI_Finalize();
  return status;
}
