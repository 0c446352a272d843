// A job in which rank 1 fails while all others wait for it in collectives that never end; with an
// argument, one in which all but rank 0 fail while that is preparing, for longer than any test.
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "kolo/comm/mpi.h"
#include "kolo/run/launch_ranks.h"
#include "run/rank_job.h"

namespace {

int fail_at_work() {
  const auto communicator = kolo::mpi_communicator();
  return kolo::run_guarded(communicator, [&] {
    float value = 1;
    communicator.all_reduce(std::span(&value, 1));
    if (communicator.rank() == 1) throw std::runtime_error("broken on purpose");
    while (true) communicator.all_reduce(std::span(&value, 1));
    return 0;
  });
}

int fail_in_preparation() {
  kolo::RankJob job;
  job.configure = [] { return kolo::CommunicationConfig{}; };
  job.prepare = [](const kolo::RankPreparation& as) -> std::vector<kolo::RankFact> {
    if (as.rank > 0) throw kolo::InputError("missing for rank " + std::to_string(as.rank));
    std::this_thread::sleep_for(std::chrono::minutes(10));
    return {};
  };
  job.run = [](const kolo::Communicator&) { return 0; };
  return kolo::run_rank_job(kolo::detect_launch_environment(), job);
}

}  // namespace

int main(int argc, char**) {
  return argc > 1 ? fail_in_preparation() : fail_at_work();
}
