#ifndef KOLO_KOLO_H
#define KOLO_KOLO_H

/* kolo for C: networks that learn and infer inside a running simulation.
 *
 *   kolo_session session;
 *   kolo_network network;
 *   kolo_initialize(MPI_COMM_WORLD, NULL, &session);
 *   kolo_network_create(session, "closure.yaml", &network);
 *   for (step = 1; step <= n_steps; ++step) {
 *     ... solve ...
 *     kolo_push(network, &inputs, 1, &targets, 1, NULL, 0, NULL);
 *     kolo_tick(network, step, NULL);
 *   }
 *   kolo_finalize(session);
 *
 * docs/library/simulations.md describes the calls and the YAML file.
 *
 * Errors. Every call except kolo_abi_version() and kolo_last_message() returns a status: KOLO_OK
 * (0) or the kind of error. kolo_last_message() then returns a message that names call, rank and
 * argument. No call ends the process or throws; MPI itself may end it if kolo_initialize() is given
 * a communicator that was freed, or never was one. A call that fails writes nothing, except that
 * kolo_infer() may have written outputs.
 *
 * Handles are values and may be copied. A call with NULL or with a dead handle returns KOLO_STATE.
 * A handle is dead after it was destroyed, after its session was finalized, and after MPI_Finalize.
 *
 * Collective calls are made by all ranks of the session, in the same order. An error on one rank is
 * an error on all: the others return KOLO_RANK, and their message names that rank. Only a dead
 * handle is an error on its rank alone.
 *
 * Threads. One thread at a time makes calls on a session and its networks, except for kolo_infer(),
 * kolo_get(), kolo_trains() and kolo_last_message(), which any number of threads may call at the
 * same time, also while another thread is in a collective call.
 */

#include <stddef.h>
#include <stdint.h>

/* Define KOLO_WITHOUT_MPI_H to leave out MPI's header; kolo_initialize_f() is declared all the
 * same. MPI's C++ interface, which some versions still have and which needs another library, is
 * left out. */
#ifndef KOLO_WITHOUT_MPI_H
#ifdef __cplusplus
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#endif
#include <mpi.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. A library with the same number has all of it, with the same meaning. */
#define KOLO_ABI_VERSION 1
int kolo_abi_version(void);

enum kolo_status {
  KOLO_OK = 0,
  KOLO_FAILED = 1, /* another error, of a file or a computation */
  KOLO_INPUT = 2,  /* an argument or a configuration is wrong */
  KOLO_RANK = 3,   /* another rank failed or went away */
  KOLO_STATE = 4,  /* before initialization, after finalization, a dead handle */
  KOLO_MEMORY = 5  /* none left */
};

/* Copies the message of this thread's last call that failed, "" before any, cut to `size` bytes
 * with the null. Returns its whole length without the null. `text` may be NULL if size is 0. */
size_t kolo_last_message(char* text, size_t size);

/* Opaque handles: indices, not addresses. NULL is no handle. */
typedef struct kolo_session_handle* kolo_session;
typedef struct kolo_network_handle* kolo_network;

enum kolo_dtype { KOLO_FLOAT32 = 1, KOLO_FLOAT64 = 2, KOLO_INT32 = 3, KOLO_INT64 = 4 };

/* Order of an array's dimensions in a tensor. */
enum kolo_order {
  KOLO_ROW = 0,   /* as they stand; dense: the last is contiguous, as in C */
  KOLO_COLUMN = 1 /* reversed; dense: the first is contiguous, as in Fortran: u(nx,ny,c,n) is the
                     tensor [n,c,ny,nx] */
};

/* View of a program's array, which a call reads or writes and does not keep.
 *
 *   double u[ny][nx];
 *   kolo_array whole = {u, KOLO_FLOAT64, 2, KOLO_ROW, {ny, nx}};
 *   kolo_array inside = {&u[1][1], KOLO_FLOAT64, 2, KOLO_ROW, {ny - 2, nx - 2}, {nx, 1}};
 */
typedef struct kolo_array {
  void* data;        /* the element at the index 0 of every dimension */
  int32_t dtype;     /* enum kolo_dtype */
  int32_t rank;      /* dimensions, 1 to 8 */
  int32_t order;     /* enum kolo_order */
  int64_t shape[8];  /* at least 1 each */
  int64_t stride[8]; /* in elements, may be negative; all 0: dense in its order */
} kolo_array;

/* Reports. The caller sets `size` to sizeof the report, and the library writes no more than that,
 * so a later library may have more numbers. A report may be NULL. */

/* Work done by kolo_tick() and kolo_serve(). */
typedef struct kolo_tick_report {
  int64_t size;
  int64_t steps;        /* training steps in this call */
  int64_t all_steps;    /* training steps since the network was made */
  double loss;          /* mean over ranks of the last step; NaN before the first */
  double learning_rate; /* of the last step */
  int64_t version;      /* of the weights that kolo_infer() now uses */
  int64_t arrivals;     /* samples that arrived on all ranks */
  int64_t stored;       /* samples in the reservoirs of all ranks */
  int64_t skipped;      /* steps skipped so far because they weren't finite */
  int64_t waiting_for;  /* a rank whose reservoir has too few samples; -1: none */
} kolo_tick_report;

/* Fate of the samples of one kolo_push(). */
typedef struct kolo_push_report {
  int64_t size;
  int64_t taken;      /* stored, or passed over by the policy */
  int64_t refused;    /* no room: push them again after the next kolo_tick() */
  int64_t dropped;    /* no room, and reservoir.when_full is drop */
  int64_t not_finite; /* had a NaN or an infinity, and were left out */
} kolo_push_report;

/* Makes a session. `options`: NULL or "" for defaults, or words with blanks between them:
 *   warn_after=SECONDS    report ranks that wait this long on stderr; 0: never
 *   timeout=SECONDS       a call that waits this long fails, and so does the session; 0: never
 *   on_failure=error      (default) calls return a status; abort: MPI_Abort on the communicator
 *   threads=N             threads that LibTorch uses in calls; default: as the program's OpenMP
 *   shared_memory=auto    (default), on or off: ranks of a node share memory
 *   checked=off           (default) or on: ranks compare every collective
 * Options other than threads are those of rank 0. MPI must be initialized, with any thread level;
 * kolo duplicates the communicator, and never initializes, finalizes or aborts MPI unasked.
 * Collective over the communicator. */
#ifndef KOLO_WITHOUT_MPI_H
int kolo_initialize(MPI_Comm communicator, const char* options, kolo_session* session);
#endif
/* Makes a session for a communicator of Fortran (MPI_Fint, in an integer of any size). */
int kolo_initialize_f(int64_t communicator, const char* options, kolo_session* session);
/* Destroys the session's networks, ends kolo's threads and frees its communicators; call it before
 * MPI_Finalize. The handle is dead afterwards, whatever the status. Collective. */
int kolo_finalize(kolo_session session);

/* Makes a network. `yaml`: a file, or the YAML itself if it has a line break; the same on all
 * ranks. Collective. */
int kolo_network_create(kolo_session session, const char* yaml, kolo_network* network);
/* Ends background training after the current step. Local. */
int kolo_network_destroy(kolo_network network);

/* Copies samples for training. `extras` may be NULL with n_extras 0. Local. */
int kolo_push(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
              const kolo_array* targets, int32_t n_targets, const kolo_array* extras,
              int32_t n_extras, kolo_push_report* report);
/* Call it once per time step, with its number, the same on all ranks; trains at every
 * training.every-th call. Collective. */
int kolo_tick(kolo_network network, int64_t time_step, kolo_tick_report* report);
/* Trains one step on these samples, without the reservoir. `loss`, the mean over ranks, may be
 * NULL. Collective. */
int kolo_train(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
               const kolo_array* targets, int32_t n_targets, const kolo_array* extras,
               int32_t n_extras, double* loss);

/* On training ranks, with training.apart: takes samples and trains until the other ranks call
 * kolo_finish(). Collective among training ranks. */
int kolo_serve(kolo_network network, kolo_tick_report* report);
/* On the other ranks: takes the newest weights. `version` may be NULL. Collective among them. */
int kolo_refresh(kolo_network network, int64_t* version);
/* On the other ranks: announces the end of samples and waits until all were taken. Collective among
 * them. */
int kolo_finish(kolo_network network);
/* Start background training, and end it after a step that all ranks agree on. Collective. */
int kolo_start(kolo_network network);
int kolo_pause(kolo_network network);

/* Computes outputs, which must not share elements. Local. */
int kolo_infer(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
               const kolo_array* outputs, int32_t n_outputs);
/* Does the slow work of a first kolo_infer() on inputs of these shapes. Local. */
int kolo_warm_up(kolo_network network, const kolo_array* inputs, int32_t n_inputs);

/* Saves network, optimizer, counters, statistics and reservoirs as folder/step-TAG, whole or not at
 * all; restoring removes later tags. All ranks give the same folder and tag. Collective. */
int kolo_save(kolo_network network, const char* folder, int64_t tag);
int kolo_restore(kolo_network network, const char* folder, int64_t tag);

/* Writes a number for TensorBoard on the first training rank; does nothing elsewhere. Local. */
int kolo_log(kolo_network network, const char* name, int64_t step, double value);
/* Number of this rank: "loss", "learning_rate", "steps", "version", "arrivals", "stored",
 * "capacity", "skipped", "parameters", "checksum". Local. */
int kolo_get(kolo_network network, const char* name, double* value);
/* Sets `trains` to 1 if this rank trains, otherwise to 0. Local. */
int kolo_trains(kolo_network network, int32_t* trains);

#ifdef __cplusplus
}
#endif

#endif /* KOLO_KOLO_H */
