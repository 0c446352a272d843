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
  // Programs of kolo run may know what it means.
  if (signal == SIGUSR1 && policy_.signal == SIGUSR2) return SIGUSR1;
  const bool is_first = asked_by_ == 0;
  if (is_first && !policy_.message.empty())
    std::cerr << fmt::format("kolo: {}: {}\n", describe_signal(signal), policy_.message)
              << std::flush;
  if (is_first) asked_by_ = signal;
  if (policy_.signal == 0) return signal == SIGHUP ? SIGTERM : signal;
  return is_first ? policy_.signal : SIGTERM;
}

JobEnd end_of_job(int status, const StopRequests& requests, const JobErrors& errors) {
  const auto& output = errors.output();
  return {status, requests.asked_by(), output.hosts(), errors.was_silent(), output.last_words()};
}

}  // namespace kolo
