// The functions of MPI that kolo calls, counted, by the interface for profiling (MPI-4, chapter
// 15). A function that is missing here is not counted; nm -u of the library lists them.
#include "counted_mpi.h"

#include <atomic>

#include <sys/syscall.h>
#include <unistd.h>

#include "comm/mpi/mpi_calls.h"

namespace {

std::atomic<int> calls, on_world, by_other_threads, begins_and_ends, made, present, others_present;

void count(MPI_Comm communicator = MPI_COMM_NULL) {
  ++calls;
  if (communicator == MPI_COMM_WORLD) ++on_world;
  if (::syscall(SYS_gettid) != ::getpid()) ++by_other_threads;
}

int count_made(int code, const MPI_Comm* communicator) {
  if (code == MPI_SUCCESS && *communicator != MPI_COMM_NULL) ++made, ++present;
  return code;
}

int count_other(int code, int change) {
  others_present += change;
  return code;
}

}  // namespace

kolo::testing::MpiCounts kolo::testing::mpi_counts() {
  return {calls, on_world, by_other_threads, begins_and_ends, made, present, others_present};
}

// NAME(parameters) is counted, on the communicator, and done by PMPI_NAME(arguments).
#define KOLO_COUNTED(name, parameters, arguments, communicator) \
  int MPI_##name parameters {                                   \
    count(communicator);                                        \
    return PMPI_##name arguments;                               \
  }

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  return ++begins_and_ends, PMPI_Init(argc, argv);
}
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return ++begins_and_ends, PMPI_Init_thread(argc, argv, required, provided);
}
int MPI_Finalize() {
  return ++begins_and_ends, PMPI_Finalize();
}
int MPI_Abort(MPI_Comm c, int code) {
  return ++begins_and_ends, count(c), PMPI_Abort(c, code);
}

int MPI_Comm_split(MPI_Comm c, int color, int key, MPI_Comm* part) {
  count(c);
  return count_made(PMPI_Comm_split(c, color, key, part), part);
}
int MPI_Comm_split_type(MPI_Comm c, int type, int key, MPI_Info info, MPI_Comm* part) {
  count(c);
  return count_made(PMPI_Comm_split_type(c, type, key, info, part), part);
}
int MPI_Comm_free(MPI_Comm* c) {
  count(*c);
  --present;
  return PMPI_Comm_free(c);
}
int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function* copy, MPI_Comm_delete_attr_function* remove,
                           int* key, void* state) {
  count();
  return count_other(PMPI_Comm_create_keyval(copy, remove, key, state), 1);
}
int MPI_Comm_free_keyval(int* key) {
  count();
  return count_other(PMPI_Comm_free_keyval(key), -1);
}
int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op) {
  count();
  return count_other(PMPI_Op_create(function, commutes, op), 1);
}
int MPI_Op_free(MPI_Op* op) {
  count();
  return count_other(PMPI_Op_free(op), -1);
}

KOLO_COUNTED(Comm_rank, (MPI_Comm c, int* rank), (c, rank), c)
KOLO_COUNTED(Comm_size, (MPI_Comm c, int* size), (c, size), c)
KOLO_COUNTED(Comm_test_inter, (MPI_Comm c, int* flag), (c, flag), c)
KOLO_COUNTED(Comm_set_errhandler, (MPI_Comm c, MPI_Errhandler h), (c, h), c)
KOLO_COUNTED(Comm_set_attr, (MPI_Comm c, int key, void* value), (c, key, value), c)
KOLO_COUNTED(Comm_delete_attr, (MPI_Comm c, int key), (c, key), c)
KOLO_COUNTED(Barrier, (MPI_Comm c), (c), c)
KOLO_COUNTED(Ibarrier, (MPI_Comm c, MPI_Request* r), (c, r), c)
KOLO_COUNTED(Bcast, (void* data, int n, MPI_Datatype t, int root, MPI_Comm c),
             (data, n, t, root, c), c)
KOLO_COUNTED(Ibcast, (void* data, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r),
             (data, n, t, root, c, r), c)
KOLO_COUNTED(Allreduce, (const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
             (in, out, n, t, op, c), c)
KOLO_COUNTED(Iallreduce,
             (const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c,
              MPI_Request* r),
             (in, out, n, t, op, c, r), c)
KOLO_COUNTED(Allgather,
             (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, MPI_Comm c),
             (in, n, t, out, m, u, c), c)
KOLO_COUNTED(Allgatherv,
             (const void* in, int n, MPI_Datatype t, void* out, const int* m, const int* starts,
              MPI_Datatype u, MPI_Comm c),
             (in, n, t, out, m, starts, u, c), c)
KOLO_COUNTED(Iallgatherv,
             (const void* in, int n, MPI_Datatype t, void* out, const int* m, const int* starts,
              MPI_Datatype u, MPI_Comm c, MPI_Request* r),
             (in, n, t, out, m, starts, u, c, r), c)
KOLO_COUNTED(Isend,
             (const void* data, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r),
             (data, n, t, to, tag, c, r), c)
KOLO_COUNTED(Irecv,
             (void* data, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request* r),
             (data, n, t, from, tag, c, r), c)
KOLO_COUNTED(Recv,
             (void* data, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status* s),
             (data, n, t, from, tag, c, s), c)
KOLO_COUNTED(Sendrecv,
             (const void* in, int n, MPI_Datatype t, int to, int tag, void* out, int m,
              MPI_Datatype u, int from, int other_tag, MPI_Comm c, MPI_Status* s),
             (in, n, t, to, tag, out, m, u, from, other_tag, c, s), c)
KOLO_COUNTED(Iprobe, (int from, int tag, MPI_Comm c, int* flag, MPI_Status* s),
             (from, tag, c, flag, s), c)
KOLO_COUNTED(Test, (MPI_Request * r, int* flag, MPI_Status* s), (r, flag, s), MPI_COMM_NULL)
KOLO_COUNTED(Testall, (int n, MPI_Request r[], int* flag, MPI_Status s[]), (n, r, flag, s),
             MPI_COMM_NULL)

}  // extern "C"
