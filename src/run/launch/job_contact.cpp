#include "run/launch/job_contact.h"

#include <cerrno>
#include <csignal>
#include <iostream>

#include <fcntl.h>
#include <fmt/format.h>

#include "run/launch/terminal.h"

namespace kolo {

JobErrors::JobErrors() {
  ::fcntl(pipe_.read_end.get(), F_SETFL, O_NONBLOCK);
}

void JobErrors::show() {
  std::string text;
  while (is_open_) {
    errno = 0;
    if (pipe_.read(text)) continue;
    is_open_ = errno == EAGAIN;
    break;
  }
  if (!text.empty()) std::cerr << output_.filter(text) << std::flush;
}

void JobErrors::finish() {
  show();
  std::cerr << output_.finish() << std::flush;
}

void JobErrors::tell(const std::string& message) {
  has_spoken_ = true;
  complain(message);
}

std::vector<int> StopRequests::next() {
  std::vector<int> passed_on;
  while (const auto signal = signals_.next()) passed_on.push_back(translate(*signal));
  return passed_on;
}

int StopRequests::translate(int signal) {
  const bool is_first = asked_by_ == 0;
  const bool goes_as_usr1 = signal == SIGUSR1 && policy_.signal != SIGUSR1;
  // Passes SIGUSR1 on to programs that know what it means.
  if (goes_as_usr1 && policy_.signal != 0) return SIGUSR1;
  if (is_first && !policy_.message.empty())
    std::cerr << fmt::format("kolo: {}: {}\n", describe_signal(signal), policy_.message)
              << std::flush;
  if (is_first) asked_by_ = signal;
  if (!is_first && !goes_as_usr1) return SIGTERM;  // the second request
  if (policy_.signal != 0) return policy_.signal;
  return signal == SIGHUP ? SIGTERM : signal;
}

JobEnd end_of_job(int status, const StopRequests& requests, const JobErrors& errors) {
  const auto& output = errors.output();
  return {status, requests.asked_by(), output.hosts(), errors.was_silent(), output.last_words()};
}

}  // namespace kolo
