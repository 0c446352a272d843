// stalling_job MODE VICTIM SIGNAL [SETTING]: a job that does collectives without end, in which one
// rank sends itself a signal. For jobs over processes and, with SETTING, under mpirun.
//   MODE     all-reduce, backward (asynchronous all-reduces, as a reducer's) or ring (transfers to
//            the next rank and from the one before)
//   SETTING  nodes: the last rank on a node of its own
//
// stalling_job suspended RANKS SECONDS: all ranks (RANKS is "all") or one is stopped for
// so long in the middle of its collectives, and continued, one rank after the other. Then the job
// goes on for a while and ends with status 0.
//
// stalling_job late RANK FILE OWNER: a rank comes to job_communicator() when the others have said
// in this file, which is their standard error, that they wait for it; never, where it is "". OWNER,
// kolo or program, initializes MPI, where it is needed.
//
// stalling_job crossed KIND 0: rank 0 waits for something, and the others for something else: KIND
// is orders (of collectives) or both (a receive, and a collective).
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/mpi/mpi_calls.h"
#include "kolo/comm/processes.h"
#include "support/read_all.h"

namespace kolo {
namespace {

void step(const Communicator& communicator, const std::string& mode, std::vector<float>& values) {
  if (mode == "all-reduce")
    return communicator.all_reduce(std::span(values), ReduceOp::sum, {.name = "sums"});
  if (mode == "ring") {
    const int size = communicator.size(), rank = communicator.rank();
    const std::span all(values);
    return communicator.exchange(
        std::vector{Transfer::receive(all.first(50'000), (rank + size - 1) % size, 5),
                    Transfer::send(all.last(50'000), (rank + 1) % size, 5)},
        {.name = "halo"});
  }
  std::vector<Work> works;
  for (std::size_t bucket = 0; bucket < 4; ++bucket) {
    works.push_back(communicator.all_reduce_async(std::span(values).subspan(bucket * 1000, 1000),
                                                  ReduceOp::average,
                                                  {.name = fmt::format("bucket {}", bucket)}));
  }
  for (const Work& work : works) work.wait();
}

Communicator start(const std::string& setting) {
  MpiOptions options;
  if (setting == "nodes") options.ranks_on_nodes = {detect_launch_environment().size - 1, 1};
  return job_communicator(options);
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool is_stopped(pid_t process) {
  const auto status = testing::read_all(fmt::format("/proc/{}/status", process));
  return status.find("\nState:\tT") != std::string::npos;
}

// Forks a child that stops the processes for so many seconds, and then continues them one after the
// other.
pid_t suspend(const std::vector<pid_t>& processes, double seconds) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sleep_for(0.3);
  for (const pid_t process : processes) ::kill(process, SIGSTOP);
  for (const pid_t process : processes)
    while (!is_stopped(process)) sleep_for(0.01);
  sleep_for(seconds);
  for (const pid_t process : processes) {
    ::kill(process, SIGCONT);
    sleep_for(0.2);
  }
  ::_exit(0);
}

void go_through_suspension(const Communicator& communicator, const std::string& ranks,
                           double seconds) {
  const std::int32_t process = ::getpid();
  std::vector<std::int32_t> processes(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&process, 1), std::span(processes));
  std::vector<float> values(100'000, 1.0F);
  pid_t child = 0;
  if (communicator.rank() == 0)
    child =
        suspend(ranks == "all" ? processes : std::vector{processes.at(std::stoul(ranks))}, seconds);
  for (float goes_on = 1; goes_on > 0;) {
    step(communicator, "all-reduce", values);
    if (communicator.rank() == 0) goes_on = ::waitpid(child, nullptr, WNOHANG) == 0 ? 1.F : 0.F;
    communicator.broadcast(std::span(&goes_on, 1));
  }
  for (int more = 0; more < 100; ++more) step(communicator, "all-reduce", values);
}

void wait_until_missed(int rank, int ranks, const std::string& file) {
  for (bool is_missed = false; !is_missed;) {
    sleep_for(0.05);
    const auto text = testing::read_all(file);
    is_missed = true;
    for (int other = 0; other < ranks; ++other) {
      const auto words = fmt::format("rank {} of {} has waited", other, ranks);
      is_missed &= other == rank || text.find(words) != std::string::npos;
    }
  }
}

int come_late(int rank, const std::string& file, bool is_programs_mpi) {
  const auto environment = detect_launch_environment();
  int provided = 0;
  if (is_programs_mpi) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (environment.rank == rank) wait_until_missed(rank, environment.size, file);
  {
    const auto communicator = job_communicator();
    communicator.barrier();
  }
  return is_programs_mpi ? MPI_Finalize() : 0;
}

void wait_for_each_other(const Communicator& communicator, const std::string& kind) {
  const auto gradients = communicator.with_own_order();
  std::vector<float> values(1000, 1.0F);
  if (communicator.rank() != 0) {
    return gradients.all_reduce_async(std::span(values), ReduceOp::sum, {.name = "bucket 0"})
        .wait();
  }
  if (kind == "both") communicator.receive(std::span(values), 1, 4, {.name = "halo"});
  communicator.all_reduce(std::span(values), ReduceOp::sum, {.name = "loss"});
}

// Time until the others have heard of this rank. Its watch tells other nodes four times in the time
// of a warning, or less often on a busy machine.
std::chrono::duration<double> time_to_be_known(bool has_nodes) {
  const char* const text = std::getenv("KOLO_WATCH_WARNING");
  const std::chrono::duration<double> warning(text != nullptr ? std::atof(text) : 1);
  return (has_nodes ? 2 : .75) * warning;
}

int run(const std::string& mode, int victim, int signal, const std::string& setting) {
  const auto communicator = start(setting);
  std::vector<float> values(100'000, 1.0F);
  step(communicator, mode, values);
  if (communicator.rank() == victim) {
    std::thread([signal, wait = time_to_be_known(setting == "nodes")] {
      std::this_thread::sleep_for(wait);
      ::kill(::getpid(), signal);
    }).detach();
  }
  while (true) step(communicator, mode, values);
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string setting = argc > 4 ? argv[4] : "";
  if (std::strcmp(argv[1], "suspended") == 0) {
    kolo::go_through_suspension(kolo::start(setting), argv[2], std::atof(argv[3]));
    return 0;
  }
  if (std::strcmp(argv[1], "late") == 0)
    return kolo::come_late(std::atoi(argv[2]), argv[3], setting == "program");
  if (std::strcmp(argv[1], "crossed") == 0) {
    kolo::wait_for_each_other(kolo::start(setting), argv[2]);
    return 0;
  }
  return kolo::run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), setting);
}
