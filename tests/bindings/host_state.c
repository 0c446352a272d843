/* host_state SCRIPTS: what belongs to the program stays as it was through every call: OpenMP's
 * number of threads, floating-point traps (which nothing inside sets off) and rounding, affinity,
 * signal actions. In threads of their own, in which LibTorch has not computed before. */
#define _GNU_SOURCE
#include <fenv.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "doubling.h"

enum { n_threads = 3, n_signals = 32, traps = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW };

typedef struct {
  cpu_set_t affinity;
  struct sigaction actions[n_signals];
} host;

static host host_now(void) {
  host now;
  memset(&now, 0, sizeof now);
  CHECK(sched_getaffinity(0, sizeof now.affinity, &now.affinity) == 0);
  for (int i = 1; i < n_signals; ++i) CHECK(sigaction(i, NULL, &now.actions[i]) == 0);
  return now;
}

static void unchanged(const char* call, const host* before) {
  const host now = host_now();
  int same = omp_get_max_threads() == n_threads && fegetexcept() == traps &&
             fegetround() == FE_DOWNWARD && CPU_EQUAL(&now.affinity, &before->affinity);
  for (int i = 1; i < n_signals; ++i)
    same = same && now.actions[i].sa_handler == before->actions[i].sa_handler &&
           now.actions[i].sa_flags == before->actions[i].sa_flags;
  if (same) return;
  fprintf(stderr, "changed by %s: %d threads, traps %x\n", call, omp_get_max_threads(),
          (unsigned)fegetexcept());
  ++failures;
}

#define LEAVES(expected, call)  \
  do {                          \
    EXPECT(expected, call, ""); \
    unchanged(#call, &before);  \
  } while (0)

/* Another state than a thread begins with. */
static void set_up(void) {
  cpu_set_t one;
  omp_set_num_threads(n_threads);
  CHECK(feenableexcept(traps) != -1);
  fesetround(FE_DOWNWARD);
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

static const char* scripts = ".";

static void* all_calls(void* options) {
  char yaml[4096];
  double from[ny][nx], to[ny][nx];
  const kolo_array inputs = dense(from), outputs = dense(to);
  set_up();
  const host before = host_now();
  kolo_session session = NULL;
  kolo_network network = NULL, none = NULL;
  double number = 0;
  write_yaml(yaml, sizeof yaml, scripts, ", background: true");
  for (int i = 0; i < nx * ny; ++i) from[i / nx][i % nx] = to[i / nx][i % nx] = i;
  LEAVES(KOLO_OK, kolo_initialize(MPI_COMM_WORLD, options, &session));
  LEAVES(KOLO_INPUT, kolo_network_create(session, "missing.yaml", &none));
  LEAVES(KOLO_OK, kolo_network_create(session, yaml, &network));
  LEAVES(KOLO_OK, kolo_push(network, &inputs, 1, &outputs, 1, NULL, 0, NULL));
  LEAVES(KOLO_INPUT, kolo_push(network, NULL, 1, &outputs, 1, NULL, 0, NULL));
  LEAVES(KOLO_OK, kolo_train(network, &inputs, 1, &outputs, 1, NULL, 0, NULL));
  LEAVES(KOLO_OK, kolo_start(network));
  LEAVES(KOLO_OK, kolo_tick(network, 1, NULL));
  LEAVES(KOLO_OK, kolo_warm_up(network, &inputs, 1));
  LEAVES(KOLO_OK, kolo_infer(network, &inputs, 1, &outputs, 1));
  LEAVES(KOLO_OK, kolo_pause(network));
  LEAVES(KOLO_OK, kolo_save(network, "host-state", 1));
  LEAVES(KOLO_OK, kolo_restore(network, "host-state", 1));
  LEAVES(KOLO_OK, kolo_log(network, "number", 1, 1.0));
  LEAVES(KOLO_OK, kolo_get(network, "checksum", &number));
  LEAVES(KOLO_OK, kolo_network_destroy(network));
  LEAVES(KOLO_OK, kolo_finalize(session));
  return NULL;
}

int main(int argc, char** argv) {
  char* const options[] = {NULL, "threads=1", "threads=2"};
  int level = 0;
  if (argc > 1) scripts = argv[1];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, all_calls, options[i]) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
