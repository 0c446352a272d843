#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "handles.h"
#include "kolo/kolo.h"
#include "status.h"

// Calls on a network.

// Weak symbols, because a program may have another OpenMP or none.
extern "C" {
[[gnu::weak]] int omp_get_max_threads(void);
[[gnu::weak]] void omp_set_num_threads(int threads);
}

using namespace kolo::bindings;

namespace {

using kolo::InputError;

// Sets the calling thread's number of OpenMP threads, which LibTorch computes with, and restores
// it. Does nothing for 0 or without OpenMP.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) noexcept {
    if (threads <= 0 || omp_get_max_threads == nullptr || omp_set_num_threads == nullptr) return;
    before_ = omp_get_max_threads();
    omp_set_num_threads(threads);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
  ~ThreadCount() {
    if (before_ > 0) omp_set_num_threads(before_);
  }

 private:
  int before_ = 0;
};

const char* text_of(const char* name, const char* text) {
  if (text == nullptr) throw InputError(std::string(name) + " is null; expected a text");
  return text;
}

template <typename T>
void require(const char* name, const T* address) {
  if (address == nullptr)
    throw InputError(std::string(name) + " is null; expected the address of a number");
}

// Runs body(network) on a living network with the session's number of threads.
template <typename Body>
int on_network(const char* name, kolo_network handle, Body&& body) noexcept {
  Call call{name};
  return guarded(call, [&] {
    const auto living = handles().networks.find(number_of(handle));
    call.rank = living->session->rank;
    require_mpi();
    const ThreadCount threads(living->session->threads);
    body(living->network);
  });
}

// Reads the arguments of a collective call. If they are wrong here, `refused` still makes the call,
// with arguments that no network takes, so that the other ranks learn of it; this rank throws its
// own error.
template <typename Read, typename Refused>
auto arguments_of_all(Read&& read, Refused&& refused) {
  try {
    return read();
  } catch (const kolo::Error&) {
    const auto problem = std::current_exception();
    try {
      refused();
    } catch (const kolo::Error&) {
    }
    std::rethrow_exception(problem);
  }
}

// Reports go into the program's structs, which may have fewer numbers if their header is older.

// InputError for a struct whose size was not set. A report may be null.
template <typename Report>
void check_report(const Report* report) {
  if (report != nullptr && report->size < static_cast<std::int64_t>(2 * sizeof(std::int64_t)))
    throw InputError("report: size is " + std::to_string(report->size) + "; expected sizeof, " +
                     std::to_string(sizeof(Report)));
}

kolo_tick_report in_c(const kolo::TickReport& done) {
  kolo_tick_report report{};
  report.steps = done.steps;
  report.all_steps = done.all_steps;
  report.loss = done.loss;
  report.learning_rate = done.learning_rate;
  report.version = done.version;
  report.arrivals = done.arrivals;
  report.stored = done.stored;
  report.skipped = done.skipped;
  report.waiting_for = done.waiting_for;
  return report;
}

kolo_push_report in_c(const kolo::PushReport& done) {
  kolo_push_report report{};
  report.taken = done.taken;
  report.refused = done.refused;
  report.dropped = done.dropped;
  report.not_finite = done.not_finite;
  return report;
}

// Copies as much as the program's struct can hold.
template <typename Done, typename Report>
void write_report(const Done& done, Report* report) {
  if (report == nullptr) return;
  auto filled = in_c(done);
  filled.size = report->size;
  const auto room = std::min<std::size_t>(static_cast<std::size_t>(report->size), sizeof filled);
  std::memcpy(report, &filled, room);
}

struct Samples {
  std::vector<kolo::Array> inputs, targets, extras;
};

Samples samples_of(const kolo_array* inputs, int32_t n_inputs, const kolo_array* targets,
                   int32_t n_targets, const kolo_array* extras, int32_t n_extras) {
  return {arrays_of("inputs", inputs, n_inputs), arrays_of("targets", targets, n_targets),
          arrays_of("extras", extras, n_extras)};
}

// Makes a network. All ranks learn of an error in one rank's arguments or configuration.
std::shared_ptr<LivingNetwork> make_network(const Call& call,
                                            const std::shared_ptr<LivingSession>& session,
                                            const char* yaml, const kolo_network* given) {
  const auto& communicator = session->session.communicator();
  kolo::OnlineConfig config;
  std::exception_ptr problem;
  try {
    if (given == nullptr)
      throw InputError("network is null; expected the address of a kolo_network");
    config = kolo::load_online_config(text_of("yaml", yaml));
  } catch (...) {
    problem = std::current_exception();
  }
  meet(call, communicator, problem);
  return std::make_shared<LivingNetwork>(
      LivingNetwork{session, kolo::OnlineNetwork(communicator, config)});
}

}  // namespace

extern "C" {

int kolo_network_create(kolo_session session, const char* yaml, kolo_network* network) {
  Call call{"kolo_network_create"};
  return guarded(call, [&] {
    const auto living = handles().sessions.find(number_of(session));
    call.rank = living->rank;
    require_mpi();
    const ThreadCount threads(living->threads);
    auto made = make_network(call, living, yaml, network);
    *network = reinterpret_cast<kolo_network>(handles().networks.add(std::move(made)));
  });
}

int kolo_network_destroy(kolo_network network) {
  Call call{"kolo_network_destroy"};
  return guarded(call, [&] {
    const auto living =
        handles().networks.take(number_of(network), "it was destroyed by kolo_network_destroy");
    call.rank = living->session->rank;
    require_mpi();
  });
}

int kolo_push(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
              const kolo_array* targets, int32_t n_targets, const kolo_array* extras,
              int32_t n_extras, kolo_push_report* report) {
  return on_network("kolo_push", network, [&](kolo::OnlineNetwork& online) {
    check_report(report);
    const auto samples = samples_of(inputs, n_inputs, targets, n_targets, extras, n_extras);
    write_report(online.push(samples.inputs, samples.targets, samples.extras), report);
  });
}

// Makes the collective call before it checks the report, so that no rank waits for this one.
int kolo_tick(kolo_network network, int64_t time_step, kolo_tick_report* report) {
  return on_network("kolo_tick", network, [&](kolo::OnlineNetwork& online) {
    const auto done = online.tick(time_step);
    check_report(report);
    write_report(done, report);
  });
}

int kolo_train(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
               const kolo_array* targets, int32_t n_targets, const kolo_array* extras,
               int32_t n_extras, double* loss) {
  return on_network("kolo_train", network, [&](kolo::OnlineNetwork& online) {
    const auto samples = arguments_of_all(
        [&] { return samples_of(inputs, n_inputs, targets, n_targets, extras, n_extras); },
        [&] { (void)online.train({}, {}); });
    const double mean = online.train(samples.inputs, samples.targets, samples.extras);
    if (loss != nullptr) *loss = mean;
  });
}

int kolo_serve(kolo_network network, kolo_tick_report* report) {
  return on_network("kolo_serve", network, [&](kolo::OnlineNetwork& online) {
    const auto done = online.serve();
    check_report(report);
    write_report(done, report);
  });
}

int kolo_refresh(kolo_network network, int64_t* version) {
  return on_network("kolo_refresh", network, [&](kolo::OnlineNetwork& online) {
    const auto newest = online.refresh();
    if (version != nullptr) *version = newest;
  });
}

int kolo_finish(kolo_network network) {
  return on_network("kolo_finish", network, [](kolo::OnlineNetwork& online) { online.finish(); });
}

int kolo_start(kolo_network network) {
  return on_network("kolo_start", network, [](kolo::OnlineNetwork& online) { online.start(); });
}

int kolo_pause(kolo_network network) {
  return on_network("kolo_pause", network, [](kolo::OnlineNetwork& online) { online.pause(); });
}

int kolo_infer(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
               const kolo_array* outputs, int32_t n_outputs) {
  return on_network("kolo_infer", network, [&](const kolo::OnlineNetwork& online) {
    online.infer(arrays_of("inputs", inputs, n_inputs), arrays_of("outputs", outputs, n_outputs));
  });
}

int kolo_warm_up(kolo_network network, const kolo_array* inputs, int32_t n_inputs) {
  return on_network("kolo_warm_up", network, [&](const kolo::OnlineNetwork& online) {
    online.warm_up(arrays_of("inputs", inputs, n_inputs));
  });
}

int kolo_save(kolo_network network, const char* folder, int64_t tag) {
  return on_network("kolo_save", network, [&](kolo::OnlineNetwork& online) {
    const std::filesystem::path path =
        arguments_of_all([&] { return text_of("folder", folder); }, [&] { online.save("", tag); });
    online.save(path, tag);
  });
}

int kolo_restore(kolo_network network, const char* folder, int64_t tag) {
  return on_network("kolo_restore", network, [&](kolo::OnlineNetwork& online) {
    const std::filesystem::path path = arguments_of_all([&] { return text_of("folder", folder); },
                                                        [&] { online.restore("", tag); });
    online.restore(path, tag);
  });
}

int kolo_log(kolo_network network, const char* name, int64_t step, double value) {
  return on_network("kolo_log", network, [&](kolo::OnlineNetwork& online) {
    online.log(text_of("name", name), step, value);
  });
}

int kolo_get(kolo_network network, const char* name, double* value) {
  return on_network("kolo_get", network, [&](const kolo::OnlineNetwork& online) {
    require("value", value);
    *value = online.get(text_of("name", name));
  });
}

int kolo_trains(kolo_network network, int32_t* trains) {
  return on_network("kolo_trains", network, [&](const kolo::OnlineNetwork& online) {
    require("trains", trains);
    *trains = online.trains() ? 1 : 0;
  });
}

}  // extern "C"
