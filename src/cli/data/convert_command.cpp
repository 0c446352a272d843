#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/data/box_files.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/progress.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct ConvertArguments {
  std::string input, output, format;
  std::int64_t chunk = 0;
  bool force = false;
};

bool is_hdf5_name(std::string_view name) {
  return name.ends_with(".h5") || name.ends_with(".hdf5");
}

// What was asked for; or what the output's name says; or the other format.
BoxFormat target_format(const ConvertArguments& arguments, const BoxFile& box) {
  require_ending("data: --output", arguments.output,
                 {"HDF5, or a pair of .npy files", {".h5", ".hdf5", ".npy"}, {}});
  const bool is_npy_name = arguments.output.ends_with(".npy");
  if (arguments.format.empty()) {
    if (is_hdf5_name(arguments.output)) return BoxFormat::hdf5;
    return is_npy_name || box.format() == BoxFormat::hdf5 ? BoxFormat::npy : BoxFormat::hdf5;
  }
  const auto format = arguments.format == "npy" ? BoxFormat::npy : BoxFormat::hdf5;
  if (format == BoxFormat::npy ? is_hdf5_name(arguments.output) : is_npy_name) {
    throw InputError(fmt::format("data: --to {} does not go with the name {}", arguments.format,
                                 arguments.output));
  }
  return format;
}

// A pair's prefix, also where one of its files was named.
std::string prefix_of(const std::string& output) {
  for (const std::string_view ending : {"_data.npy", "_label.npy"}) {
    if (output.ends_with(ending)) return output.substr(0, output.size() - ending.size());
  }
  if (!output.ends_with(".npy")) return output;
  throw InputError(
      fmt::format("data: --output {}: a box becomes a pair of .npy files; expected their prefix, "
                  "{} for {}_data.npy "
                  "and {}_label.npy",
                  output, output.substr(0, output.size() - 4), output.substr(0, output.size() - 4),
                  output.substr(0, output.size() - 4)));
}

int convert(const ConvertArguments& arguments) {
  const BoxFile box(arguments.input);
  const auto format = target_format(arguments, box);
  if (arguments.chunk > 0 && format == BoxFormat::npy) {
    throw InputError("data: --chunk is for HDF5; .npy files have no chunks");
  }
  const auto output = format == BoxFormat::npy ? prefix_of(arguments.output) : arguments.output;
  for (const auto& warning : box.warnings()) std::cerr << warning << "\n";
  ProgressBar bar(std::cout, progress_options_from_environment());
  const Stopwatch watch;
  bar.start("planes", 2 * box.size(), 0, "planes");
  const auto left_out = convert_box(
      box, output,
      {.to = format,
       .chunk = arguments.chunk,
       .replace = arguments.force,
       .progress = [&](std::int64_t done, std::int64_t) {
         bar.update(done, {.samples_per_second = static_cast<double>(done) / watch.seconds()});
       }});
  bar.clear();
  for (const auto& what : left_out) std::cerr << what << "\n";
  const auto written = format == BoxFormat::npy
                           ? fmt::format("{} and {}", npy_data_file(output).string(),
                                         npy_label_file(output).string())
                           : output;
  const auto edge = static_cast<std::uint64_t>(box.size());
  print_wrapped(fmt::format(
      "{}: {}^3 cells, {}, {}\n", written, box.size(),
      format_bytes(sizeof(float) * (nbody_channels + hydro_channels) * edge * edge * edge),
      format_duration(watch.seconds())));
  return 0;
}

}  // namespace

void add_data_convert_command(CLI::App& data, std::function<int()>& action) {
  const auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* const command =
      data.add_subcommand("convert", "Write a simulation box in another format");
  add_text_option(*command, "box", arguments->input, "a simulation box",
                  "An HDF5 file, or either file or the prefix of a pair of .npy files")
      ->required()
      ->type_name("FILE");
  add_text_option(*command, "-o,--output", arguments->output, "a file's name",
                  "The HDF5 file, or the prefix of PREFIX_data.npy and PREFIX_label.npy")
      ->required()
      ->type_name("FILE");
  add_choice_option(*command, "--to", arguments->format, {"npy", "hdf5"},
                    "npy or hdf5; what the output's name says, or the other format, unless given");
  add_number_option(*command, "--chunk", arguments->chunk, {1, 512},
                    "HDF5 in chunks of so many cells per edge; contiguous unless given")
      ->type_name("N");
  command->add_flag("--force", arguments->force, "Replace files that are there");
  command->footer(
      "Reads some planes at a time, so that the box may be larger than the memory. Files appear\n"
      "when they are whole. A box that is packed, or not of float32, becomes one that all threads\n"
      "of a training run can read at once.\n\n"
      "Examples:\n"
      "  kolo data convert box.h5 -o box              box_data.npy and box_label.npy\n"
      "  kolo data convert packed.h5 -o plain.h5      without packing and chunks");
  command->callback([arguments, &action] { action = [arguments] { return convert(*arguments); }; });
}

}  // namespace kolo
