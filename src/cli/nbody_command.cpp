#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/data/box_files.h"
#include "kolo/tools/generators.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/progress.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

struct NbodyArguments : CosmologyOptions {
  NbodyArguments() { threads = 0; }  // as many as there are processors

  std::string output;
  bool force = false;
};

void check_memory(std::int64_t size) {
  // Positions, velocities, forces, their modes, density and its modes; 1.8 GiB at 256.
  constexpr std::uint64_t fields = 3 + 3 + 3 + 3 + 1 + 1;
  const auto cells = static_cast<std::uint64_t>(size * size * (size + 2));
  const auto needed = cells * fields * sizeof(double);
  const auto installed = installed_memory();
  if (!installed || std::cmp_less_equal(needed, *installed)) return;
  throw InputError(fmt::format("data: --size {} takes {} of memory, this machine has {}", size,
                               format_bytes(needed),
                               format_bytes(static_cast<std::uint64_t>(*installed))));
}

void check_file(const fs::path& file, bool force) {
  const auto status = fs::status(file);
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) {
    throw InputError(
        fmt::format("data: {} is there and no file; choose another --output", file.string()));
  }
  if (force) return;
  throw InputError(
      fmt::format("data: {} is there already; choose another --output, or --force to replace it",
                  file.string()));
}

// Makes the folder that the file goes to.
void prepare_folder(const fs::path& output) {
  const auto folder = fs::absolute(output).parent_path();
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (!failure && ::access(folder.c_str(), W_OK | X_OK) != 0) {
    failure = std::error_code(errno, std::generic_category());
  }
  if (failure) {
    throw InputError(
        fmt::format("data: cannot write into {}: {}", folder.string(), failure.message()));
  }
}

// "matter: density 0.000 to 0.463, vx -0.299 to 0.296, ..."
std::string describe_ranges(std::string_view what, std::span<const float> values,
                            std::span<const std::string_view> channels) {
  std::string text = fmt::format("{}:", what);
  const auto cells = values.size() / channels.size();
  for (std::size_t channel = 0; channel < channels.size(); ++channel) {
    const auto [least, most] = std::ranges::minmax(values.subspan(channel * cells, cells));
    text += fmt::format("{} {} {:.3f} to {:.3f}", channel > 0 ? "," : "", channels[channel], least,
                        most);
  }
  return text;
}

void report(const NbodyArguments& arguments, const SimulationBox& box, double seconds) {
  constexpr std::string_view channels[] = {"density", "vx", "vy", "vz", "temperature"};
  print_wrapped(
      fmt::format("{} ({}): {} x {} x {} cells, seed {}, {}\n{}\n{}\n", arguments.output,
                  format_bytes(fs::file_size(arguments.output)), box.size, box.size, box.size,
                  arguments.seed, format_duration(seconds),
                  describe_ranges("matter", box.nbody, std::span(channels).first(nbody_channels)),
                  describe_ranges("gas", box.hydro, channels)));
}

int make(NbodyArguments arguments) {
  if (arguments.threads == 0) arguments.threads = detect_cpu_limits().cpus();
  check_cosmology_options(arguments);
  check_memory(arguments.size);
  require_ending("data: --output", arguments.output, {"HDF5", {".h5", ".hdf5"}, {}});
  check_file(arguments.output, arguments.force);
  prepare_folder(arguments.output);
  const Stopwatch watch;
  ProgressBar bar(std::cout, progress_options_from_environment());
  std::string shown;
  const auto show = [&](double fraction, std::string_view stage) {
    const auto done = std::lround(100 * fraction);
    if (stage != shown) bar.start(shown = stage, 100, done);
    bar.update(done, {});
  };
  const auto box = make_cosmology_box(arguments, show);
  show(1, "writing");
  write_box_hdf5(box, arguments.output);
  bar.clear();
  report(arguments, box, watch.seconds());
  return 0;
}

void add_options(CLI::App& command, NbodyArguments& arguments) {
  add_text_option(command, "-o,--output", arguments.output, "a file's name",
                  "The HDF5 file to make")
      ->required()
      ->type_name("FILE");
  add_number_option(command, "--size", arguments.size, {16, 1024}, "Cells per edge: even")
      ->default_str(std::to_string(arguments.size))
      ->type_name("N");
  add_number_option(command, "--seed", arguments.seed, {0, std::uint64_t{1} << 53},
                    "Another universe for another number")
      ->default_str(std::to_string(arguments.seed))
      ->type_name("N");
  add_number_option(command, "--crop", arguments.crop, {1, 1024},
                    "Keep a corner of so many cells per edge")
      ->type_name("N");
  add_number_option(command, "--threads", arguments.threads, {1, 1024},
                    "As many as there are processors, unless given")
      ->type_name("N");
  command.add_flag("--force", arguments.force, "Replace files that are there");
}

}  // namespace

void add_data_nbody_command(CLI::App& data, std::function<int()>& action) {
  const auto arguments = std::make_shared<NbodyArguments>();
  CLI::App* const command =
      data.add_subcommand("nbody", "Make a box of simulated universe: dark matter and gas");
  add_options(*command, *arguments);
  command->footer(
      "Dark matter falls together from random beginnings up to redshift 3; gas follows it, held "
      "up\nby pressure and warmed by shocks. A network learns to tell the gas from the matter. The "
      "same\nbox for the same options, with any number of threads.\n\n"
      "Example:\n"
      "  kolo data nbody --size 128 --seed 1 -o data/train.h5\n"
      "  kolo data nbody --size 128 --seed 2 --crop 64 -o data/valid.h5");
  command->callback([arguments, &action] { action = [arguments] { return make(*arguments); }; });
}

}  // namespace kolo
