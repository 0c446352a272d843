/* calls SCRIPTS: every call of the C interface, where it succeeds. */
#include <pthread.h>

#include "doubling.h"

static char yaml[4096];
static int rank = 0, size = 1; /* of the session */

static double here[3][4], there[3][4];

static void right_arguments(kolo_network network) {
  const kolo_array inputs = dense(here), outputs = dense(there);
  double loss = -1, number = -1;
  int32_t yes = -1;
  for (int i = 0; i < 12; ++i) here[i / 4][i % 4] = i + rank;
  SUCCEEDS(kolo_warm_up(network, &inputs, 1));
  SUCCEEDS(kolo_infer(network, &inputs, 1, &outputs, 1));
  for (int i = 0; i < 12; ++i) CHECK(there[i / 4][i % 4] == 2.0 * (i + rank));
  SUCCEEDS(kolo_train(network, &inputs, 1, &outputs, 1, NULL, 0, &loss));
  CHECK(loss == 0.0);
  SUCCEEDS(kolo_train(network, &inputs, 1, &outputs, 1, NULL, 0, NULL));
  kolo_push_report pushed = {.size = sizeof pushed, .taken = -1, .refused = -1};
  SUCCEEDS(kolo_push(network, &inputs, 1, &outputs, 1, NULL, 0, &pushed));
  CHECK(pushed.taken >= 1 && pushed.refused == 0 && pushed.size == sizeof pushed);
  kolo_tick_report report = {.size = sizeof report, .steps = -1, .waiting_for = -7};
  SUCCEEDS(kolo_tick(network, 1, &report));
  CHECK(report.arrivals >= size && report.all_steps >= 2 && report.waiting_for != -7);
  /* A program of an older header has fewer numbers; what is behind them is the program's. */
  kolo_tick_report shorter = {.size = 3 * sizeof(int64_t), .all_steps = -1, .loss = -5.0};
  SUCCEEDS(kolo_tick(network, 2, &shorter));
  CHECK(shorter.all_steps >= report.all_steps && shorter.loss == -5.0);
  SUCCEEDS(kolo_get(network, "steps", &number));
  CHECK(number == (double)shorter.all_steps);
  SUCCEEDS(kolo_trains(network, &yes));
  CHECK(yes == 1);
  SUCCEEDS(kolo_log(network, "energy", 1, 0.5));
}

/* What was learned after a save is forgotten by restoring it. */
static void save_and_restore(kolo_network network) {
  const kolo_array inputs = dense(here), outputs = dense(there);
  double before = 0, between = 0, after = 0;
  char folder[64];
  snprintf(folder, sizeof folder, "saved-by-%d", size);
  SUCCEEDS(kolo_get(network, "checksum", &before));
  SUCCEEDS(kolo_save(network, folder, 7));
  for (int i = 0; i < 12; ++i) there[i / 4][i % 4] = -1;
  SUCCEEDS(kolo_train(network, &inputs, 1, &outputs, 1, NULL, 0, NULL));
  SUCCEEDS(kolo_get(network, "checksum", &between));
  SUCCEEDS(kolo_restore(network, folder, 7));
  SUCCEEDS(kolo_get(network, "checksum", &after));
  CHECK(before != between && before == after);
  EXPECT(rank == 0 ? KOLO_INPUT : KOLO_RANK, kolo_restore(network, folder, 8),
         "kolo_restore on rank ", "step-00000008");
  /* The call is named as C has it, and once. */
  char message[1024];
  CHECK(kolo_get(network, "happiness", &before) == KOLO_INPUT);
  kolo_last_message(message, sizeof message);
  CHECK(strncmp(message, "kolo_get on rank ", 17) == 0 && strstr(message, "online") == NULL);
}

static kolo_network shared_network;

static void* infer_often(void* unused) {
  double from[3][4], to[3][4];
  const kolo_array inputs = dense(from), outputs = dense(to);
  (void)unused;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 12; ++i) from[i / 4][i % 4] = round + i;
    if (kolo_infer(shared_network, &inputs, 1, &outputs, 1) != KOLO_OK) return &shared_network;
    for (int i = 0; i < 12; ++i)
      if (to[i / 4][i % 4] != 2.0 * (round + i)) return &shared_network;
  }
  return NULL;
}

/* Any number of threads, while another one trains (on what is right already, so nothing changes).
 */
static void infer_from_many_threads(kolo_network network) {
  const kolo_array inputs = dense(here), outputs = dense(there);
  pthread_t threads[3];
  void* problem = NULL;
  for (int i = 0; i < 12; ++i) there[i / 4][i % 4] = 2 * here[i / 4][i % 4];
  shared_network = network;
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, infer_often, NULL) == 0);
  for (int i = 0; i < 20; ++i)
    SUCCEEDS(kolo_train(network, &inputs, 1, &outputs, 1, NULL, 0, NULL));
  for (int i = 0; i < 3; ++i) {
    CHECK(pthread_join(threads[i], &problem) == 0);
    CHECK(problem == NULL);
  }
}

static kolo_network network_with(kolo_session session, const char* scripts, const char* training) {
  char text[4096];
  kolo_network network = NULL;
  write_yaml(text, sizeof text, scripts, training);
  SUCCEEDS(kolo_network_create(session, text, &network));
  return network;
}

/* Rank 0 trains and does nothing else, the others compute. */
static void train_apart(kolo_session session, const char* scripts) {
  const kolo_network network = network_with(session, scripts, ", ranks: [0], apart: true");
  const kolo_array inputs = dense(here), outputs = dense(there);
  int32_t trains = -1;
  int64_t version = -1;
  kolo_tick_report report = {.size = sizeof report};
  SUCCEEDS(kolo_trains(network, &trains));
  CHECK(trains == (rank == 0));
  if (rank == 0) {
    EXPECT(KOLO_STATE, kolo_push(network, &inputs, 1, &outputs, 1, NULL, 0, NULL),
           "kolo_push on rank 0", "apart");
    SUCCEEDS(kolo_serve(network, &report));
    /* How many steps there is time for before the others are through is nobody's promise. */
    CHECK(report.steps == report.all_steps && report.arrivals <= 3 * (size - 1));
  } else {
    EXPECT(KOLO_STATE, kolo_serve(network, NULL), "kolo_serve on rank ", "apart");
    for (int i = 0; i < 3; ++i) {
      kolo_push_report pushed = {.size = sizeof pushed};
      SUCCEEDS(kolo_push(network, &inputs, 1, &outputs, 1, NULL, 0, &pushed));
      CHECK(pushed.taken == 1);
    }
    SUCCEEDS(kolo_refresh(network, &version));
    CHECK(version >= 0);
    SUCCEEDS(kolo_infer(network, &inputs, 1, &outputs, 1));
    SUCCEEDS(kolo_finish(network));
  }
  SUCCEEDS(kolo_network_destroy(network));
}

static void train_in_background(kolo_session session, const char* scripts) {
  const kolo_network network = network_with(session, scripts, ", background: true");
  const kolo_array inputs = dense(here), outputs = dense(there);
  SUCCEEDS(kolo_push(network, &inputs, 1, &outputs, 1, NULL, 0, NULL));
  SUCCEEDS(kolo_start(network));
  SUCCEEDS(kolo_tick(network, 1, NULL));
  SUCCEEDS(kolo_infer(network, &inputs, 1, &outputs, 1));
  SUCCEEDS(kolo_pause(network));
  SUCCEEDS(kolo_start(network)); /* and nobody ends it but destroying */
  SUCCEEDS(kolo_network_destroy(network));
}

/* Slots of handles are used again, and old handles stay dead. */
static void create_and_destroy(kolo_session session) {
  kolo_network first = NULL, network = NULL;
  double number = 0;
  for (int i = 0; i < 20; ++i) {
    SUCCEEDS(kolo_network_create(session, yaml, &network));
    SUCCEEDS(kolo_get(network, "steps", &number));
    SUCCEEDS(kolo_network_destroy(network));
    if (i == 0) first = network;
    EXPECT(KOLO_STATE, kolo_get(first, "steps", &number), "dead");
  }
}

int main(int argc, char** argv) {
  const char* scripts = argc > 1 ? argv[1] : ".";
  int level = 0;
  kolo_session session = NULL;
  kolo_network network = NULL;
  write_yaml(yaml, sizeof yaml, scripts, "");
  CHECK(kolo_abi_version() == KOLO_ABI_VERSION);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  SUCCEEDS(kolo_initialize(MPI_COMM_WORLD,
                           "warn_after=600 timeout=0 on_failure=error threads=1 shared_memory=auto",
                           &session));
  SUCCEEDS(kolo_network_create(session, yaml, &network));
  if (network == NULL) return 1;
  right_arguments(network);
  save_and_restore(network);
  infer_from_many_threads(network);
  create_and_destroy(session);
  if (size > 1) train_apart(session, scripts);
  train_in_background(session, scripts);
  SUCCEEDS(kolo_finalize(session));
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
