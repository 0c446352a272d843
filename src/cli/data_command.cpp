#include "cli/command_line.h"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/data/box_files.h"
#include "kolo/run/launch_environment.h"
#include "kolo/tools/data_sets.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/progress.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct FetchArguments {
  std::string dataset;
  std::string output;
  std::string url;
};

// A mirror in the environment holds a folder for each data set.
std::string address(const FetchArguments& arguments) {
  if (!arguments.url.empty()) return arguments.url;
  std::string mirror = environment_variable("KOLO_DATA_URL").value_or("");
  if (mirror.empty()) return {};
  return mirror + (mirror.ends_with('/') ? "" : "/") + arguments.dataset;
}

int fetch(const FetchArguments& arguments) {
  const auto dataset = remote_dataset(arguments.dataset);
  const auto result = fetch_dataset(
      dataset, {.folder = arguments.output.empty() ? "data/" + arguments.dataset : arguments.output,
                .url = address(arguments),
                .notice = [](const std::string& text) { std::cerr << text << std::endl; }});
  const auto folder = result.folder.string();
  if (result.was_there) {
    std::cout << fmt::format("{} is complete in {}\n", arguments.dataset, folder);
  } else {
    std::cout << fmt::format("{} is in {}: {} fetched, sums right\n", arguments.dataset, folder,
                             format_bytes(static_cast<std::uint64_t>(result.bytes_fetched)));
  }
  return 0;
}

}  // namespace

void add_data_fetch_command(CLI::App& data, std::function<int()>& action) {
  const auto arguments = std::make_shared<FetchArguments>();
  CLI::App* const command = data.add_subcommand("fetch", "Download a data set");
  add_choice_option(*command, "name", arguments->dataset, {"mnist", "fashion-mnist", "cifar10"},
                    "mnist, fashion-mnist or cifar10")
      ->required()
      ->type_name("NAME");
  add_text_option(*command, "-o,--output", arguments->output, "a folder",
                  "Where to; data/NAME unless given")
      ->type_name("DIR");
  add_text_option(*command, "--url", arguments->url, "an address",
                  "Where the files are, instead of their usual address: http, https or file")
      ->type_name("BASE");
  command->footer(
      "Downloads go on where they were cut off, are compared with their MD5 sums and appear only\n"
      "when they are whole. Several at once are safe: one works, the others wait.\n\n"
      "KOLO_DATA_URL names a mirror of one's own, with a folder for each data set.\n\n"
      "Examples:\n"
      "  kolo data fetch cifar10\n"
      "  kolo data fetch mnist -o /scratch/mnist --url http://mirror.example.org/mnist");
  command->callback([arguments, &action] { action = [arguments] { return fetch(*arguments); }; });
}

namespace {

struct InspectArguments {
  std::string path;
  bool quick = false;
  bool json = false;
};

std::string lengths(const nlohmann::ordered_json& shape) {
  const auto text = fmt::to_string(fmt::join(shape.get<std::vector<std::int64_t>>(), " x "));
  return text.empty() ? "one number" : text;
}

std::string cell_text(const nlohmann::ordered_json& number) {
  return number.is_null() ? "-" : fmt::format("{:.6g}", number.get<double>());
}

void print_array(const nlohmann::ordered_json& array) {
  const auto text = [](const nlohmann::ordered_json& json) { return json.get<std::string>(); };
  std::cout << fmt::format("  {:10} {} of {}", text(array["name"]), lengths(array["shape"]),
                           text(array["type"]));
  if (!array["chunk"].empty())
    std::cout << fmt::format(", in chunks of {}", lengths(array["chunk"]));
  for (const auto& filter : array["filters"]) std::cout << fmt::format(", {}", text(filter));
  std::cout << "\n";
  if (array["channels"].empty()) return;
  constexpr auto row = "    {:10} {:>12} {:>12} {:>12}";
  std::cout << fmt::format(fmt::runtime(row), "", "min", "max", "mean") << "\n";
  for (const auto& channel : array["channels"]) {
    std::cout << fmt::format(fmt::runtime(row), text(channel["name"]), cell_text(channel["min"]),
                             cell_text(channel["max"]), cell_text(channel["mean"]));
    for (const auto& [key, words] :
         {std::pair("not_finite", "not finite"), std::pair("beyond_float32", "beyond float32")}) {
      const auto count = channel[key].get<std::int64_t>();
      if (count > 0) std::cout << fmt::format("  {} {}", format_count(count), words);
    }
    std::cout << "\n";
  }
}

void print_inspection(const nlohmann::ordered_json& inspection) {
  std::cout << fmt::format("{}: {}, {}\n", inspection["path"].get<std::string>(),
                           inspection["format"].get<std::string>(),
                           format_bytes(inspection["bytes"].get<std::uint64_t>()));
  for (const auto& array : inspection["arrays"]) print_array(array);
  for (const auto& [name, value] : inspection["facts"].items()) {
    // The user's own text may be no UTF-8.
    constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;
    std::cout << fmt::format(
        "  {}: {}\n", name,
        value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, replace));
  }
  for (const auto& advice : inspection["advice"])
    std::cout << fmt::format("  ! {}\n", advice.get<std::string>());
}

int inspect_for_user(const InspectArguments& arguments) {
  const auto inspection = inspect(arguments.path, !arguments.quick);
  if (arguments.json) {
    // Names of files need not be UTF-8.
    std::cout << inspection.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else {
    print_inspection(inspection);
  }
  return 0;
}

}  // namespace

void add_data_inspect_command(CLI::App& data, std::function<int()>& action) {
  const auto arguments = std::make_shared<InspectArguments>();
  CLI::App* const command = data.add_subcommand("inspect", "Show what is in a data file");
  add_text_option(*command, "path", arguments->path, "a file or a folder",
                  "A file, a folder, or the prefix of a .npy pair")
      ->required()
      ->type_name("FILE");
  command->add_flag("--quick", arguments->quick, "Leave out the ranges of large arrays");
  command->add_flag("--json", arguments->json, "One JSON object on standard output");
  command->footer(
      "Reads IDX (plain or gzip), folders of CIFAR-10's binary batches, images and folders of\n"
      "images, simulation boxes (HDF5, .npy pairs), arrays (.npy, HDF5), safetensors; told by\n"
      "content.\n"
      "Lines with ! are advice.\n\n"
      "Examples:\n"
      "  kolo data inspect box.h5\n"
      "  kolo data inspect data/cifar10 --json");
  command->callback(
      [arguments, &action] { action = [arguments] { return inspect_for_user(*arguments); }; });
}

namespace {

struct ConvertArguments {
  std::string input, output;
  bool force = false;
};

// Chooses the format of the output's name, else the other one.
BoxFormat target_format(const ConvertArguments& arguments, const BoxFile& box) {
  require_ending("data: --output", arguments.output,
                 {"HDF5, or a pair of .npy files", {".h5", ".hdf5", ".npy"}, {}});
  const std::string_view name = arguments.output;
  if (name.ends_with(".h5") || name.ends_with(".hdf5")) return BoxFormat::hdf5;
  const bool is_npy = name.ends_with(".npy") || box.format() == BoxFormat::hdf5;
  return is_npy ? BoxFormat::npy : BoxFormat::hdf5;
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
  const auto output = format == BoxFormat::npy ? prefix_of(arguments.output) : arguments.output;
  for (const auto& warning : box.warnings()) std::cerr << warning << "\n";
  ProgressBar bar(std::cout, progress_options_from_environment());
  const Stopwatch watch;
  bar.start("planes", 2 * box.size(), 0, "planes");
  const auto left_out = convert_box(
      box, output,
      {.to = format, .replace = arguments.force, .progress = [&](std::int64_t done, std::int64_t) {
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
                  "FILE.h5, or the prefix of PREFIX_data.npy and PREFIX_label.npy; without an "
                  "ending it is the other format")
      ->required()
      ->type_name("FILE");
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

void add_data_command(CLI::App& app, std::function<int()>& action) {
  CLI::App* const data = app.add_subcommand("data", "Get, make, convert and look at data sets");
  data->require_subcommand(1);
  add_data_fetch_command(*data, action);
  add_data_cifar10_command(*data, action);
  add_data_images_command(*data, action);
  add_data_nbody_command(*data, action);
  add_data_convert_command(*data, action);
  add_data_inspect_command(*data, action);
  data->footer(
      "Examples:\n"
      "  kolo data fetch cifar10                            download CIFAR-10\n"
      "  kolo data cifar10 --from fashion-mnist -o data/stand-in\n"
      "                                                     make data like it where there is no "
      "network\n"
      "  kolo data images --from fashion-mnist -o data/images\n"
      "                                                     make folders of JPEG files as ImageNet "
      "has them\n"
      "  kolo data nbody -o data/train.h5                   make a box of simulated universe\n"
      "  kolo data convert box.h5 -o box                    as a pair of .npy files\n"
      "  kolo data inspect box.h5                           shapes, ranges, advice\n\n"
      "kolo data COMMAND --help says more.");
}

}  // namespace kolo
