#include "cli/train/training_restarts.h"

#include <iostream>

#include <fmt/format.h>

#include "kolo/observe/run_log.h"

namespace kolo {

namespace {

void go_on(LaunchRequest& request, RunLog& log) {
  request.command.insert(request.command.begin() + 2, "--resume");  // kolo train --resume ...
  log.info("going on from the newest checkpoint");
}

// The folder is to hold no run, or the ranks would move it aside.
void start_over(const RunFolder& folder, RunLog& log) {
  std::filesystem::remove(folder.history());
  if (std::filesystem::is_directory(folder.checkpoints()))
    std::filesystem::remove_all(folder.checkpoints());
  constexpr auto message = "there is no checkpoint yet: starting from the beginning";
  std::cerr << "kolo: " << message << std::endl;
  log.info("{}", message);
}

}  // namespace

RestartPolicy training_restarts(const RunFolder& folder, bool resume, int restarts) {
  RestartPolicy policy{.restarts = restarts};
  if (restarts == 0) return policy;
  if (const auto moved = resume ? std::nullopt : folder.prepare()) {
    std::cout << fmt::format("{} held an earlier run; it is now {}\n", folder.path.string(),
                             moved->string());
  }
  policy.before_restart = [folder, resume](LaunchRequest& request, const std::string& message) {
    RunLog log({.file = folder.log()});
    log.warn("{}", message);
    if (resume) return;  // as the command says already
    if (folder.holds_checkpoint())
      go_on(request, log);
    else
      start_over(folder, log);
  };
  return policy;
}

}  // namespace kolo
