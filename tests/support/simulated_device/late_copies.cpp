#include "support/simulated_device/internals.h"

#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace kolo::testing::simulated {
namespace {

struct Waiting {
  StreamPoint given = 0;
  std::deque<std::function<void()>> copies;  // the last ones given
};

struct AllWaiting {
  std::mutex mutex;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, Waiting> of_stream;

  Waiting& of(const c10::Stream& stream) { return of_stream[{stream.device_index(), stream.id()}]; }
};

AllWaiting& all() {
  static AllWaiting waiting;
  return waiting;
}

bool is_done(const Waiting& waiting, StreamPoint until) {
  return waiting.copies.empty() || waiting.given - waiting.copies.size() >= until;
}

void do_next(Waiting& waiting) {
  waiting.copies.front()();
  waiting.copies.pop_front();
}

}  // namespace

void add_late_copy(const c10::Stream& stream, std::function<void()> copy) {
  const std::scoped_lock lock(all().mutex);
  auto& waiting = all().of(stream);
  ++waiting.given;
  waiting.copies.push_back(std::move(copy));
}

StreamPoint end_of(const c10::Stream& stream) {
  const std::scoped_lock lock(all().mutex);
  return all().of(stream).given;
}

void finish_copies(const c10::Stream& stream, StreamPoint until) {
  const std::scoped_lock lock(all().mutex);
  auto& waiting = all().of(stream);
  while (!is_done(waiting, until)) do_next(waiting);
}

bool are_copies_done(const c10::Stream& stream, StreamPoint until) {
  const std::scoped_lock lock(all().mutex);
  auto& waiting = all().of(stream);
  if (is_done(waiting, until)) return true;
  do_next(waiting);
  return false;
}

}  // namespace kolo::testing::simulated
