// ending_job OWNER PLACE WAY [SETTING]: a job of three ranks, which do collectives until rank 1
// ends in a way of its own. The others say what they learn and end with status 1.
//   OWNER    kolo or program: who initializes MPI and finalizes it; kolo where there is none
//   PLACE    inner, main or static: whose the communicator is, a scope's before main()'s end,
//            main()'s, or the program's
//   WAY      together (no rank ends before the others), caught (an exception, while there is a
//            communicator), thrown (through it), return, exit, release (of the communicator, and
//            the process goes on), unjoined (the others have joined), finalize (MPI), hooked
//            (exit() inside a collective); of all ranks together: exits (with status 0), lost (a
//            handle that nothing destroys), forked (a child of each rank ends as the program does)
//   SETTING  under MPI: nodes (the last rank on a node of its own), mpi (no shared memory); T: the
//            others wait for rank 1 in a transfer and not in a collective
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "comm/mpi/mpi_calls.h"
#include "kolo/base/error.h"
#include "kolo/comm/processes.h"

namespace kolo {
namespace {

std::optional<Communicator> of_the_program;
std::shared_ptr<std::byte> memory_of_the_program;

struct Job {
  bool is_programs_mpi;
  std::string place, way, setting;
};

MpiOptions options_for(const std::string& setting) {
  MpiOptions options;
  if (setting == "nodes") options.ranks_on_nodes = {2, 1};
  if (setting == "mpi") options.shared_memory = SharedMemory::off;
  return options;
}

void reduce(const Communicator& world) {
  std::vector<float> values(5000, 1.0F);
  world.all_reduce(std::span(values), ReduceOp::sum, {.name = "sums"});
}

// Ends the process inside of a collective, as listeners are called there.
class ExitingListener final : public CollectiveListener {
 public:
  void on_start(const CollectiveCall&) noexcept override { std::exit(0); }
};

void end_in_a_way_of_its_own(std::optional<Communicator>& world, const std::string& way) {
  if (way == "caught") {
    try {
      throw Error("a mistake of rank 1");
    } catch (const Error& error) {
      std::fprintf(stderr, "caught: %s\n", error.what());
    }
  }
  if (way == "thrown") throw Error("a mistake of rank 1");
  if (way == "exit") std::exit(0);
  if (way == "hooked") {
    world->add_listener(std::make_shared<ExitingListener>());
    reduce(*world);
  }
  if (way == "release") {
    world.reset();
    std::this_thread::sleep_for(std::chrono::seconds(30));
  }
  if (way == "finalize") MPI_Finalize();
}

// True in a child, which is to end as the program does: without waiting for its parent's threads,
// and without a word to the other ranks.
bool is_in_child(const Communicator& world) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      reduce(world);
    } catch (const StateError& error) {
      if (std::strstr(error.what(), "fork") != nullptr) return true;
    }
    std::_Exit(9);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) throw Error("the child has not ended with status 0");
  world.barrier();
  for (int step = 0; step < 3; ++step) reduce(world);
  return false;
}

// Whether all ranks end in this way.
bool end_together(std::optional<Communicator>& world, const std::string& way) {
  if (way == "exits") std::exit(0);
  if (way == "lost") (void)std::make_unique<Communicator>(*world).release();
  if (way == "forked") (void)is_in_child(*world);
  return way == "together" || way == "lost" || way == "forked";
}

void work(std::optional<Communicator>& world, const Job& job) {
  // Sets of ranks and memory, which have things of MPI's and the system's too.
  const auto set = world->split(0);
  memory_of_the_program = world->allocate(10'000);
  for (int step = 0; step < 3; ++step) {
    reduce(*world);
    reduce(*set);
    world->barrier_async().wait();
  }
  if (end_together(world, job.way)) return;
  if (world->rank() == 1) return end_in_a_way_of_its_own(world, job.way);
  if (job.way == "unjoined") (void)world->checked().join();
  if (job.setting == "T") {
    std::vector<float> values(5000);
    world->receive(std::span(values), 1, 3, {.name = "halo"});
  }
  while (true) reduce(*world);
}

int work_in_place(std::optional<Communicator>& of_main, const Job& job) try {
  std::optional<Communicator> inner;
  auto& world = job.place == "static" ? of_the_program : job.place == "main" ? of_main : inner;
  world.emplace(job_communicator(options_for(job.setting)));
  work(world, job);
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "learnt: %s\n", error.what());
  return 1;
}

int run(const Job& job) {
  int provided = 0;
  if (job.is_programs_mpi) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  std::optional<Communicator> world;
  const int status = work_in_place(world, job);
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (job.is_programs_mpi && !is_finalized) MPI_Finalize();
  return status;
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  return kolo::run({.is_programs_mpi = std::strcmp(argv[1], "program") == 0,
                    .place = argv[2],
                    .way = argv[3],
                    .setting = argc > 4 ? argv[4] : ""});
}
