#ifndef KOLO_KOLO_H
#define KOLO_KOLO_H

/* kolo for C: networks that learn inside a running simulation, and answer there.
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
 * docs/simulations.md says what the calls do and what stands in the YAML file.
 *
 * Errors. Every call but kolo_abi_version() and kolo_last_message() returns a status: KOLO_OK (0),
 * or what went wrong; kolo_last_message() then has one message that names call, rank and argument.
 * No call ends the process or throws. Where one fails, what it would have written is untouched,
 * but for the outputs of kolo_infer().
 *
 * Handles are values: they may be copied. One that was destroyed, whose session was finalized, or
 * after MPI_Finalize gives KOLO_STATE, as NULL does.
 *
 * Collective calls are made by all ranks of the session, in one order. What is wrong on one rank
 * is an error on all: KOLO_RANK on the others, whose message names it. Only a dead handle is an
 * error of its rank alone, since nobody knows whom to tell.
 *
 * Threads. One thread at a time makes the calls on a session and its networks, but for
 * kolo_infer(), kolo_get(), kolo_trains() and kolo_last_message(), which any number of threads may
 * call at the same time, also while another one is in a collective call.
 */

#include <stddef.h>
#include <stdint.h>

/* Without MPI's header, for programs that have the communicator from elsewhere: define
 * KOLO_WITHOUT_MPI_H; kolo_initialize_f() is there all the same. MPI's C++ interface, which some
 * versions still bring and which takes a library of its own, is left out. */
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

/* Of this header. A library of the same number has all that is in it, and means the same. */
#define KOLO_ABI_VERSION 1
int kolo_abi_version(void);

enum kolo_status {
  KOLO_OK = 0,
  KOLO_FAILED = 1, /* what is none of the others: a file, a computation */
  KOLO_INPUT = 2,  /* an argument or a configuration is wrong */
  KOLO_RANK = 3,   /* another rank failed or went away */
  KOLO_STATE = 4,  /* before initialization, after finalization, a dead handle */
  KOLO_MEMORY = 5  /* none left */
};

/* The message of this thread's last call that failed, "" before any; cut to `size` bytes with the
 * null at its end. Returns its whole length, without the null. `text` may be NULL if size is 0. */
size_t kolo_last_message(char* text, size_t size);

/* Opaque: an index, never an address to be read. NULL is none. */
typedef struct kolo_session_handle* kolo_session;
typedef struct kolo_network_handle* kolo_network;

enum kolo_dtype { KOLO_FLOAT32 = 1, KOLO_FLOAT64 = 2, KOLO_INT32 = 3, KOLO_INT64 = 4 };

/* How an array's dimensions become a tensor's. */
enum kolo_order {
  KOLO_ROW = 0,   /* as they stand; dense: the last is contiguous, as in C */
  KOLO_COLUMN = 1 /* reversed; dense: the first is contiguous, as in Fortran: u(nx,ny,c,n) is the
                     tensor [n,c,ny,nx] */
};

/* An array of the program's: a view that owns nothing and is read or written during the call it is
 * passed to, then forgotten.
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

/* Reports. The caller sets `size` to sizeof the report; the library writes no more than that, so a
 * later library may know more numbers than the program. NULL for a report that nobody wants. */

/* What kolo_tick() and kolo_serve() have done. */
typedef struct kolo_tick_report {
  int64_t size;
  int64_t steps;        /* of training, in this call */
  int64_t all_steps;    /* since the network was made */
  double loss;          /* mean over ranks of the last step; NaN before the first */
  double learning_rate; /* of the last step */
  int64_t version;      /* of the weights that kolo_infer() uses from now on */
  int64_t arrivals;     /* samples that came, on all ranks */
  int64_t stored;       /* of those in reservoirs now, on all ranks */
  int64_t skipped;      /* steps left out since the network was made: not finite */
  int64_t waiting_for;  /* a rank whose reservoir has too few samples yet; -1: none */
} kolo_tick_report;

/* What became of the samples of one kolo_push(). */
typedef struct kolo_push_report {
  int64_t size;
  int64_t taken;      /* stored, or passed over as the policy has it */
  int64_t refused;    /* no room: push them again after the next kolo_tick() */
  int64_t dropped;    /* no room, and reservoir.when_full is drop */
  int64_t not_finite; /* had a NaN or an infinity, and were left out */
} kolo_push_report;

/* Sessions. `options`: NULL or "" for defaults, or words with blanks between them:
 *   warn_after=SECONDS    ranks that wait for others for so long are named on stderr; 0: never
 *   timeout=SECONDS       after so long the waiting call fails, and the session with it; 0: never
 *   on_failure=error      (default) calls return a status; abort: MPI_Abort on the communicator
 *   threads=N             that LibTorch computes with in the calls; default: as the program's
 * OpenMP shared_memory=auto    (default), on or off: whether ranks of a node share memory
 *   checked=off           (default) or on: ranks compare every collective
 * Rank 0's count, but for threads. MPI must be initialized, with any thread level; kolo duplicates
 * the communicator, and never initializes, finalizes or aborts MPI unasked. Collective over the
 * communicator. */
#ifndef KOLO_WITHOUT_MPI_H
int kolo_initialize(MPI_Comm communicator, const char* options, kolo_session* session);
#endif
/* The same for a communicator as Fortran has it (MPI_Fint, in any size of integer). */
int kolo_initialize_f(int64_t communicator, const char* options, kolo_session* session);
/* Destroys the session's networks, ends kolo's threads and gives back what the session had of MPI.
 * Before MPI_Finalize. The handle is dead afterwards, whatever the status. Collective. */
int kolo_finalize(kolo_session session);

/* `yaml`: a file or, where there is a line break in it, the YAML itself; the same on all ranks.
 * Collective. */
int kolo_network_create(kolo_session session, const char* yaml, kolo_network* network);
/* Ends background training after the step that is under way. Local. */
int kolo_network_destroy(kolo_network network);

/* Hands samples over; they are copied. `extras` may be NULL with n_extras 0. Local. */
int kolo_push(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
              const kolo_array* targets, int32_t n_targets, const kolo_array* extras,
              int32_t n_extras, kolo_push_report* report);
/* Once per time step: trains at every training.every-th. Collective. */
int kolo_tick(kolo_network network, int64_t time_step, kolo_tick_report* report);
/* One step on these samples, without the reservoir. `loss`, the mean over ranks, may be NULL.
 * Collective. */
int kolo_train(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
               const kolo_array* targets, int32_t n_targets, const kolo_array* extras,
               int32_t n_extras, double* loss);

/* With training.apart. Of the ranks that train, collective among them: takes samples and trains
 * until the others call kolo_finish(). */
int kolo_serve(kolo_network network, kolo_tick_report* report);
/* Of the other ranks, collective among them: the newest weights that all can have. `version` may be
 * NULL. */
int kolo_refresh(kolo_network network, int64_t* version);
/* Of the other ranks, collective among them: no more samples come. Waits until all are taken. */
int kolo_finish(kolo_network network);
/* Background training begins, and ends after a step that all ranks agree on. Collective. */
int kolo_start(kolo_network network);
int kolo_pause(kolo_network network);

/* Computes outputs, which must not share elements with one another. Local. */
int kolo_infer(kolo_network network, const kolo_array* inputs, int32_t n_inputs,
               const kolo_array* outputs, int32_t n_outputs);
/* Does what a first kolo_infer() on inputs of these shapes takes time for. Local. */
int kolo_warm_up(kolo_network network, const kolo_array* inputs, int32_t n_inputs);

/* Network, optimizer, counters, statistics and reservoirs as folder/step-TAG, whole or not at all;
 * and back, which removes later tags. Collective. */
int kolo_save(kolo_network network, const char* folder, int64_t tag);
int kolo_restore(kolo_network network, const char* folder, int64_t tag);

/* A number of the program's for TensorBoard, on the first rank that trains; nothing elsewhere.
 * Local. */
int kolo_log(kolo_network network, const char* name, int64_t step, double value);
/* One of this rank's: "loss", "learning_rate", "steps", "version", "arrivals", "stored",
 * "capacity", "skipped", "parameters", "checksum". Local. */
int kolo_get(kolo_network network, const char* name, double* value);
/* Whether this rank trains: 1 or 0. Local. */
int kolo_trains(kolo_network network, int32_t* trains);

#ifdef __cplusplus
}
#endif

#endif /* KOLO_KOLO_H */
