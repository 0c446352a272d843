#include "cli/data/making.h"

#include <algorithm>
#include <iostream>

#include "cli/option_values.h"
#include "kolo/base/cpu_limits.h"
#include "launch/terminal.h"

namespace kolo {

int MakingArguments::thread_count() const {
  return threads > 0 ? threads : detect_cpu_limits().cpus();
}

void add_making_options(CLI::App& command, MakingArguments& arguments) {
  add_text_option(command, "-o,--output", arguments.output, "a folder", "The folder to make")
      ->required()
      ->type_name("DIR");
  add_text_option(command, "--source", arguments.source, "a folder",
                  "Where the data to start from lie")
      ->type_name("DIR");
  add_number_option(command, "--seed", arguments.seed, {0}, "Other images for another number")
      ->default_str(std::to_string(arguments.seed))
      ->type_name("N");
  add_number_option(command, "--threads", arguments.threads, {1, 1024},
                    "As many as there are processors, unless given")
      ->type_name("N");
  command.add_flag("--force", arguments.force, "Replace a data set of this kind that is there");
}

MakingProgress::MakingProgress() : bar_(std::cout, progress_options_from_environment()) {}

void MakingProgress::show(std::int64_t done, std::int64_t total) {
  const std::lock_guard lock(mutex_);
  if (total_ < 0) bar_.start("images", total_ = total, 0, "images");
  // Threads may report out of order.
  most_done_ = std::max(most_done_, done);
  bar_.update(most_done_,
              {.samples_per_second = static_cast<double>(most_done_) / watch_.seconds()});
}

double MakingProgress::finish() {
  const std::lock_guard lock(mutex_);
  if (total_ >= 0) bar_.clear();
  return watch_.seconds();
}

}  // namespace kolo
