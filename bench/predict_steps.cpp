// Predicts training steps from what kolo bench has measured, for scripts that compare the two:
//
//   kolo bench FILE -n 2 --mode synthetic --profile --collectives --json > two.json
//   predict_steps two.json --ranks 2,3,4,10000 --ranks-per-node 4
//
// Prints one JSON object: the network as fitted, and a prediction a rank count. Options, when left
// out, are as in the first file with a profile; links that were not measured are --network's.
#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "kolo/base/error.h"
#include "kolo/scaling/predict_study.h"

namespace kolo {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::vector<std::string> files;
  std::vector<int> ranks = {1};
  std::string network = "ethernet-10g", algorithm = "hierarchical";
  int ranks_per_node = 0, cores_per_node = 0;
  std::int64_t batch_size = 0;
};

BenchMeasurements read_files(const std::vector<std::string>& files) {
  BenchMeasurements measurements;
  for (const auto& file : files) {
    std::ifstream stream(file);
    if (!stream) throw InputError(fmt::format("predict_steps: cannot open {}", file));
    try {
      measurements.add(Json::parse(stream));
    } catch (const Json::exception& error) {
      throw InputError(fmt::format("predict_steps: {} is not JSON: {}", file, error.what()));
    }
  }
  if (measurements.profiles.empty())
    throw InputError(
        "predict_steps: no file has a profile; kolo bench --profile --json writes one");
  return measurements;
}

Json json_of(const Link& link) {
  return {{"latency_seconds", link.latency_seconds}, {"bytes_per_second", link.bytes_per_second}};
}

Json json_of(const NetworkFit& fit) {
  return {{"within_node", json_of(fit.model.within_node)},
          {"between_nodes", json_of(fit.model.between_nodes)},
          {"points", fit.points},
          {"mean_error", fit.mean_error},
          {"largest_error", fit.largest_error}};
}

Json json_of(int ranks, const StepPrediction& step) {
  return {{"ranks", ranks},
          {"step_seconds", step.step_seconds},
          {"compute_seconds", step.compute_seconds},
          {"communication_seconds", step.communication_seconds},
          {"exposed_communication_seconds", step.exposed_communication_seconds},
          {"straggler_seconds", step.straggler_seconds},
          {"data_wait_seconds", step.data_wait_seconds}};
}

Json predict(const Arguments& arguments) {
  auto measurements = read_files(arguments.files);
  NetworkFit fit{network_named(arguments.network)};
  if (const auto collectives = measurements.collectives_of_profiled(); !collectives.empty())
    fit = fit_network(collectives, fit.model);
  const auto or_else = [](auto given, auto otherwise) { return given > 0 ? given : otherwise; };
  StudyPrediction prediction;
  const auto& first = measurements.profiles.front();
  prediction.ranks_per_node = or_else(arguments.ranks_per_node, first.ranks_per_node);
  prediction.cores_per_node = or_else(arguments.cores_per_node, first.cores_per_node);
  prediction.batch_size = or_else(arguments.batch_size, first.batch_size);
  prediction.profiles = std::move(measurements.profiles);
  prediction.network = fit.model;
  prediction.options.algorithm = algorithm_named(arguments.algorithm);
  Json json{{"network", json_of(fit)}, {"predictions", Json::array()}};
  for (const int ranks : arguments.ranks)
    json["predictions"].push_back(json_of(ranks, predict_ranks(prediction, ranks)));
  return json;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Predicts training steps from what kolo bench --profile --json has measured");
  app.add_option("files", arguments.files, "What kolo bench --json printed")->required();
  app.add_option("--ranks", arguments.ranks, "Rank counts")->delimiter(',');
  app.add_option("--ranks-per-node", arguments.ranks_per_node);
  app.add_option("--cores-per-node", arguments.cores_per_node);
  app.add_option("--batch-size", arguments.batch_size, "A rank");
  app.add_option("--network", arguments.network, "Where none was measured");
  app.add_option("--algorithm", arguments.algorithm, "ring, tree or hierarchical");
  CLI11_PARSE(app, argc, argv);
  std::cout << predict(arguments).dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  try {
    return kolo::run(argc, argv);
  } catch (const kolo::InputError& error) {
    std::cerr << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
