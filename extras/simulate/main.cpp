// kolo-simulate: predicts the steps of a study of kolo scale on more ranks.
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "simulate_study.h"

namespace kolo {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Link& link) {
  return {{"latency_seconds", link.latency_seconds}, {"bytes_per_second", link.bytes_per_second}};
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

// Steps as the first profile has them, for scripts that compare them with others.
Json predict_benches(const SimulationRequest& request) {
  auto measurements = read_benches(request.benches);
  NetworkFit fit{network_named(request.network.empty() ? "ethernet-10g" : request.network)};
  if (const auto collectives = measurements.collectives_of_profiled(); !collectives.empty())
    fit = fit_network(collectives, fit.model);
  StudyPrediction prediction;
  const auto& first = measurements.profiles.front();
  prediction.ranks_per_node =
      request.ranks_per_node > 0 ? request.ranks_per_node : first.ranks_per_node;
  prediction.cores_per_node = first.cores_per_node;
  prediction.batch_size = first.batch_size;
  prediction.profiles = std::move(measurements.profiles);
  prediction.network = fit.model;
  prediction.options.algorithm = algorithm_named(request.algorithm);
  Json json{{"network",
             {{"within_node", json_of(fit.model.within_node)},
              {"between_nodes", json_of(fit.model.between_nodes)},
              {"points", fit.points},
              {"mean_error", fit.mean_error},
              {"largest_error", fit.largest_error}}},
            {"predictions", Json::array()}};
  for (const int ranks : request.ranks)
    json["predictions"].push_back(json_of(ranks, predict_ranks(prediction, ranks)));
  return json;
}

void predict_study(SimulationRequest request) {
  if (request.study.filename() == "study.json") request.study = request.study.parent_path();
  const auto study = Study::read(request.study / "study.json");
  const auto simulation = simulate_study(
      study, request, [](const std::string& line) { std::cerr << line << std::endl; });
  const auto file = request.study / "predictions.json";
  write_file_atomically(file, to_json(simulation).dump(2) + "\n");
  std::cout << to_text(study, simulation) << fmt::format("predictions in {}\n", file.string());
}

int run(int argc, char** argv) {
  SimulationRequest request;
  CLI::App app(
      "Predicts the steps of a study of kolo scale on more ranks, from measured steps and a model "
      "of the network, and writes predictions.json into the study's folder.",
      "kolo-simulate");
  app.add_option("study", request.study,
                 "The study's folder; none: steps are predicted from --bench alone, as JSON")
      ->type_name("STUDY");
  app.add_option("--ranks", request.ranks, "The numbers of ranks, for example 64,1024")
      ->delimiter(',')
      ->required()
      ->type_name("N,...");
  app.add_option("--ranks-per-node", request.ranks_per_node, "As many as cores here, unless given")
      ->type_name("N");
  app.add_option("--network", request.network,
                 fmt::format("What is between the nodes: {}", fmt::join(network_names(), ", ")))
      ->type_name("NAME");
  app.add_option("--all-reduce", request.algorithm,
                 "ring, tree, or hierarchical, as kolo does (the default)")
      ->type_name("NAME");
  app.add_option("--bench", request.benches,
                 "What kolo bench --profile --json printed, instead of measuring now")
      ->type_name("FILE");
  app.add_option("--kolo", request.kolo, "The program that measures (default: kolo)")
      ->type_name("PROGRAM");
  app.footer(
      "Example:\n"
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2 -o study\n"
      "  kolo-simulate study --ranks 64,1024 --ranks-per-node 32 --network slingshot-11");
  CLI11_PARSE(app, argc, argv);
  if (request.study.empty())
    std::cout << predict_benches(request).dump() << std::endl;
  else
    predict_study(request);
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
