// kolo data, and kolo init, which writes a first configuration for data.
#include "cli/command_line.h"

#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/data/box_files.h"
#include "kolo/run/launch_ranks.h"
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

// Address to download from; a mirror in KOLO_DATA_URL holds a folder for each data set.
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

void add_fetch_command(CLI::App& data, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(data, chosen, "fetch", "Download a data set", fetch);
  const auto names = remote_dataset_names();
  add_choice_option(*command, "name NAME", arguments->dataset, names, join(names, " or "));
  add_text_option(*command, "-o,--output DIR", arguments->output, "a folder",
                  "Folder for the files (default: data/NAME)");
  add_text_option(*command, "--url BASE", arguments->url, "an address",
                  "Address to download from instead of the usual one: http, https or file");
  command->footer(
      "Resumes downloads that were cut off and checks their MD5 sums. Files appear only when they "
      "are complete. Several downloads at once are safe: one works, the others wait.\n\n"
      "KOLO_DATA_URL names a mirror with a folder for each data set.\n\n"
      "Examples:\n"
      "  kolo data fetch cifar10\n"
      "  kolo data fetch mnist -o /scratch/mnist --url http://mirror.example.org/mnist");
}

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
    // A user's text need not be UTF-8.
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

void add_inspect_command(CLI::App& data, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(data, chosen, "inspect", "Show what is in a data file", inspect_for_user);
  add_text_option(*command, "path FILE", arguments->path, "a file or a folder",
                  "A file, a folder, or the prefix of a pair of .npy files");
  command->add_flag("--quick", arguments->quick, "Leave out the ranges of large arrays");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      fmt::format("Reads {}. Recognizes them by content. Lines with ! are advice.\n\n"
                  "Examples:\n"
                  "  kolo data inspect box.h5\n"
                  "  kolo data inspect data/cifar10 --json",
                  inspected_formats));
}

struct ConvertArguments {
  std::string input, output;
  bool force = false;
};

// Prefix of a pair of .npy files, also where one of its files was named.
std::string prefix_of(const std::string& output) {
  for (const std::string_view ending : {"_data.npy", "_label.npy", ".npy"}) {
    if (output.ends_with(ending)) return output.substr(0, output.size() - ending.size());
  }
  return output;
}

int convert(const ConvertArguments& arguments) {
  const BoxFile box(arguments.input);
  require_ending("data: --output", arguments.output,
                 {"HDF5, or a pair of .npy files", {".h5", ".hdf5", ".npy"}, {}});
  const bool is_hdf5 = arguments.output.ends_with(".h5") || arguments.output.ends_with(".hdf5");
  const auto format = is_hdf5 ? BoxFormat::hdf5 : BoxFormat::npy;
  const auto output = is_hdf5 ? arguments.output : prefix_of(arguments.output);
  make_folder_of("data: --output", output);
  for (const auto& warning : box.warnings()) std::cerr << warning << "\n";
  ProgressBar bar(std::cout, progress_options_from_environment());
  const Stopwatch watch;
  bar.start("planes", 2 * box.size(), 0, "planes");
  convert_box(
      box, output,
      {.to = format, .replace = arguments.force, .progress = [&](std::int64_t done, std::int64_t) {
         bar.update(done, {.samples_per_second = static_cast<double>(done) / watch.seconds()});
       }});
  bar.clear();
  const auto written = is_hdf5 ? output
                               : fmt::format("{} and {}", npy_data_file(output).string(),
                                             npy_label_file(output).string());
  const auto edge = static_cast<std::uint64_t>(box.size());
  print_wrapped(fmt::format(
      "{}: {}^3 cells, {}, {}\n", written, box.size(),
      format_bytes(sizeof(float) * (nbody_channels + hydro_channels) * edge * edge * edge),
      format_duration(watch.seconds())));
  return 0;
}

void add_convert_command(CLI::App& data, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(data, chosen, "convert", "Write a simulation box in another format", convert);
  add_text_option(*command, "box FILE", arguments->input, "a simulation box",
                  "An HDF5 file, or either file or the prefix of a pair of .npy files");
  add_text_option(*command, "-o,--output FILE", arguments->output, "a file's name",
                  "FILE.h5, or the prefix of PREFIX_data.npy and PREFIX_label.npy")
      ->required();
  command->add_flag("--force", arguments->force, "Replace files that are there");
  command->footer(
      "Reads a few planes at a time, so the box may be larger than memory. Files appear only when "
      "they are complete. All threads of a training run can read the result at once, even if the "
      "input was packed or not float32.\n\n"
      "Examples:\n"
      "  kolo data convert box.h5 -o box              box_data.npy and box_label.npy\n"
      "  kolo data convert packed.h5 -o plain.h5      without packing and chunks");
}

}  // namespace

void add_data_command(CLI::App& app, Chosen& chosen) {
  CLI::App* const data = app.add_subcommand("data", "Get, make, convert and look at data sets");
  data->require_subcommand(1);
  add_fetch_command(*data, chosen);
  add_making_commands(*data, chosen);
  add_convert_command(*data, chosen);
  add_inspect_command(*data, chosen);
  data->footer(
      "Examples:\n"
      "  kolo data fetch cifar10\n"
      "  kolo data nbody -o data/train.h5\n"
      "  kolo data inspect data/train.h5\n\n"
      "kolo data COMMAND --help says more.");
}

namespace {

struct InitArguments {
  std::string data, output = "config.yaml";
};

int init(const InitArguments& arguments) {
  const auto& file = arguments.output;
  require_ending("init: --output", file, {"YAML", {".yaml", ".yml"}, {}});
  if (std::filesystem::exists(file))
    throw InputError(fmt::format("init: {} is there already; choose another --output", file));
  const auto [seen, yaml] = first_configuration(arguments.data, file);
  make_folder_of("init: --output", file);
  write_file_atomically(file, yaml);
  print_wrapped(fmt::format("{}: {}\n{} is written; next: kolo train {} -n 2\n", arguments.data,
                            seen, file, file));
  return 0;
}

}  // namespace

void add_init_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(app, chosen, "init", "Write a first configuration for data of your own", init);
  add_text_option(*command, "data PATH", arguments->data, "a folder or file of data",
                  "A folder for each class of images, MNIST's or CIFAR-10's files, .npy arrays, an "
                  "HDF5 file, or a simulation box");
  add_text_option(*command, "-o,--output FILE", arguments->output, "a file's name",
                  "The configuration to write")
      ->default_str(arguments->output);
  command->footer(
      "Chooses a network, a batch and a number of epochs that fit the data, and explains them in "
      "comments. Parts named train and valid are taken as such; otherwise every fifth sample "
      "validates.\n\n"
      "Example:\n"
      "  kolo init data/pictures\n"
      "  kolo train config.yaml -n 2");
}

}  // namespace kolo
