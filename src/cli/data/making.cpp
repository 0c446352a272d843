#include "cli/data/making.h"

#include <algorithm>
#include <iostream>

#include "cli/terminal.h"
#include "kolo/base/cpu_limits.h"

namespace kolo {

int MakingArguments::thread_count() const {
  return threads > 0 ? threads : detect_cpu_limits().cpus();
}

void add_making_options(CLI::App& command, MakingArguments& arguments) {
  command.add_option("-o,--output", arguments.output, "The folder to make")
      ->required()
      ->type_name("DIR");
  command.add_option("--source", arguments.source, "Where the data to start from lie")
      ->type_name("DIR");
  command.add_option("--seed", arguments.seed, "Other images for another number")
      ->capture_default_str()
      ->type_name("N");
  command
      .add_option("--threads", arguments.threads, "As many as there are processors, unless given")
      ->check(CLI::Range(1, 4096))
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
