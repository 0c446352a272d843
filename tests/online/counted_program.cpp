// counted_program LEVEL: a program with an MPI of its own, of that thread level, and a network
// inside. Status 0 where kolo has neither begun nor ended MPI, has called nothing on
// MPI_COMM_WORLD, has called from no thread that the level doesn't allow, and has left nothing of
// MPI's behind.
#include <cstdio>
#include <string_view>

#include "comm/counted_mpi.h"
#include "kolo/comm/session.h"
#include "online/linear_task.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

int level_named(std::string_view name) {
  if (name == "single") return MPI_THREAD_SINGLE;
  if (name == "funneled") return MPI_THREAD_FUNNELED;
  if (name == "serialized") return MPI_THREAD_SERIALIZED;
  return MPI_THREAD_MULTIPLE;
}

void simulate(const Communicator& ranks, const std::string& folder) {
  OnlineNetwork network(ranks, linear_config({"normalization.inputs=channels"}));
  for (int step = 1; step <= 20; ++step) {
    std::mt19937 random(static_cast<unsigned>(1000 * step + ranks.rank()));
    Cells cells(random, 16);
    network.push(cells.inputs(), cells.targets());
    network.tick(step);
    if (step == 10) network.save(folder, step);
  }
  network.restore(folder, 10);
  (void)error_of(network);
}

int wrong(const char* what, int found) {
  std::fprintf(stderr, "%s: %d\n", what, found);
  return 1;
}

int run(int argc, char** argv) {
  const int level = level_named(argc > 1 ? argv[1] : "multiple");
  int provided = 0;
  PMPI_Init_thread(&argc, &argv, level, &provided);
  // One for all ranks; each has another while nobody has told them.
  const TemporaryFolder own;
  char folder[4096] = {};
  own.path().string().copy(folder, sizeof(folder) - 1);
  PMPI_Bcast(folder, sizeof(folder), MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Comm ranks = MPI_COMM_NULL;
  PMPI_Comm_dup(MPI_COMM_WORLD, &ranks);
  {
    auto session = initialize(ranks);
    simulate(session.communicator(), folder);
    session.finalize();
  }
  const auto counts = mpi_counts();
  PMPI_Comm_free(&ranks);
  PMPI_Barrier(MPI_COMM_WORLD);
  PMPI_Finalize();
  int mistakes = 0;
  if (counts.calls == 0) mistakes += wrong("calls that were counted", counts.calls);
  if (counts.on_world > 0) mistakes += wrong("calls on MPI_COMM_WORLD", counts.on_world);
  if (counts.begins_and_ends > 0) mistakes += wrong("begins and ends", counts.begins_and_ends);
  if (level < MPI_THREAD_MULTIPLE && counts.by_other_threads > 0)
    mistakes += wrong("calls by other threads", counts.by_other_threads);
  if (counts.communicators_present > 0)
    mistakes += wrong("communicators left", counts.communicators_present);
  return mistakes == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kolo::testing

int main(int argc, char** argv) {
  return kolo::testing::run(argc, argv);
}
