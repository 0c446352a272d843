#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <ostream>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/gpu_facts.h"
#include "kolo/comm/device.h"
#include "kolo/data/mnist.h"
#include "kolo/tools/cosmology_box.h"
#include "kolo/kernels/onednn.h"
#include "kolo/train/observe/format.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

const char* name_of(FindingStatus status) {
  constexpr const char* names[] = {"ok", "warning", "problem"};
  return names[static_cast<std::size_t>(status)];
}

const char* mark_of(FindingStatus status, bool unicode) {
  constexpr const char* symbols[] = {"✓", "!", "✗"};
  constexpr const char* words[] = {"ok     ", "warning", "PROBLEM"};
  return (unicode ? symbols : words)[static_cast<std::size_t>(status)];
}

}  // namespace

FindingStatus worst_status(std::span<const Finding> findings) {
  auto worst = FindingStatus::ok;
  for (const auto& finding : findings) worst = std::max(worst, finding.status);
  return worst;
}

int exit_status_of(std::span<const Finding> findings) {
  return worst_status(findings) == FindingStatus::problem ? 1 : 0;
}

void print_findings(std::ostream& stream, std::span<const Finding> findings, bool unicode,
                    int columns) {
  std::size_t width = 0;
  for (const auto& finding : findings) width = std::max(width, finding.name.size());
  const std::string indent(width + (unicode ? 4 : 10), ' ');
  for (const auto& finding : findings) {
    auto lines = fmt::format("{} {:{}}  {}\n", mark_of(finding.status, unicode), finding.name,
                             width, finding.text);
    if (!finding.remedy.empty())
      lines += fmt::format("{}{}{}\n", indent, unicode ? "→ " : "-> ", finding.remedy);
    stream << wrap(lines, columns, static_cast<int>(indent.size()));
  }
}

void print_findings_as_json(std::ostream& stream, std::span<const Finding> findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"status", name_of(finding.status)},
                    {"text", finding.text},
                    {"remedy", finding.remedy}});
  }
  const nlohmann::ordered_json report = {
      {"version", KOLO_VERSION}, {"status", name_of(worst_status(findings))}, {"findings", list}};
  // What other programs have printed may not be UTF-8.
  stream << report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

namespace {

struct DoctorArguments {
  bool json = false;
  bool probe = false;
};

std::vector<Finding> examine() {
  const auto environment = detect_launch_environment();
  const auto core_before = environment_variable("KOLO_BLAS_CORE_BEFORE").value_or("");
  std::vector<Finding> findings = {
      check_mpi_library(),
      check_launcher(environment),
      check_host_names({"localhost", host_name()}),
      check_two_ranks(environment),
      check_processors(detect_cpu_limits(), environment_variable),
      check_shared_memory(),
      check_blas(loaded_blas(), vector_units_of_this_processor(), core_before),
      check_onednn(onednn_description()),
      check_kernels(onednn_description(), convolution_implementation(2),
                    convolution_implementation(3)),
      check_bfloat16(onednn_description(), multiplies_bfloat16()),
      check_libtorch(),
      check_gpu()};
  if (const auto facts = gpu_facts()) {
    for (auto& finding : check_gpus(*facts)) findings.push_back(std::move(finding));
  }
  findings.push_back(check_fashion_mnist(fashion_mnist_folder));
  findings.push_back(check_cosmology(is_cosmology_built()));
  return findings;
}

int doctor(const DoctorArguments& arguments) {
  if (arguments.probe) return run_probe();
  const auto findings = examine();
  if (arguments.json) {
    print_findings_as_json(std::cout, findings);
  } else {
    std::cout << "kolo " KOLO_VERSION << (cuda_runtime() ? ", with CUDA\n" : ", CPU only\n");
    print_findings(std::cout, findings, progress_options_from_environment().unicode,
                   terminal_width(STDOUT_FILENO));
  }
  return exit_status_of(findings);
}

}  // namespace

void add_doctor_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* const command =
      app.add_subcommand("doctor", "Check this machine: MPI, names, BLAS, threads, memory, data");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->add_flag("--probe", arguments->probe)->group("");  // what check_two_ranks() starts
  command->footer(
      "Examples:\n"
      "  kolo doctor\n"
      "  kolo doctor --json | jq .status\n\n"
      "Exit status: 0 everything works (there may be warnings), 1 something is a problem.");
  command->callback([arguments, &action] { action = [arguments] { return doctor(*arguments); }; });
}

}  // namespace kolo
