#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/tools/fetch.h"
#include "kolo/run/launch_environment.h"
#include "kolo/train/observe/format.h"

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

}  // namespace kolo
