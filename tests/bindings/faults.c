/* faults SCRIPTS: what can't be done through the C interface, and what is said of it: wrong
 * arguments on all ranks and on one alone, dead handles, before and after kolo and MPI. */
#include <pthread.h>

#include "doubling.h"

static char yaml[4096];
static int rank = 0, size = 1; /* of the session */

static double here[3][4], there[3][4];

/* Each call on a network, by number, with arguments that are right. */
enum { n_calls = 15 };
static int call_number(int which, kolo_network network) {
  const kolo_array inputs = dense(here), outputs = dense(there);
  double number = 0;
  int32_t yes = 0;
  switch (which) {
    case 0:
      return kolo_push(network, &inputs, 1, &outputs, 1, NULL, 0, NULL);
    case 1:
      return kolo_tick(network, 1, NULL);
    case 2:
      return kolo_train(network, &inputs, 1, &outputs, 1, NULL, 0, NULL);
    case 3:
      return kolo_serve(network, NULL);
    case 4:
      return kolo_refresh(network, NULL);
    case 5:
      return kolo_start(network);
    case 6:
      return kolo_pause(network);
    case 7:
      return kolo_infer(network, &inputs, 1, &outputs, 1);
    case 8:
      return kolo_warm_up(network, &inputs, 1);
    case 9:
      return kolo_save(network, "folder", 1);
    case 10:
      return kolo_restore(network, "folder", 1);
    case 11:
      return kolo_log(network, "name", 1, 1.0);
    case 12:
      return kolo_get(network, "steps", &number);
    case 13:
      return kolo_finish(network);
    default:
      return kolo_trains(network, &yes);
  }
}

static void all_calls_are_dead(kolo_network network, const char* words) {
  for (int i = 0; i < n_calls; ++i) EXPECT(KOLO_STATE, call_number(i, network), "kolo_", words);
  EXPECT(KOLO_STATE, kolo_network_destroy(network), "kolo_network_destroy", words);
}

static void no_handles(const char* of_session) {
  kolo_session session = NULL;
  kolo_network network = NULL;
  EXPECT(KOLO_STATE, kolo_finalize(NULL), "kolo_finalize", "handle is null", "kolo_initialize");
  EXPECT(KOLO_STATE, kolo_finalize((kolo_session)&session), "none that kolo_initialize has given");
  EXPECT(KOLO_STATE, kolo_network_create(NULL, "x.yaml", &network), of_session);
  all_calls_are_dead(NULL, "null");
  all_calls_are_dead((kolo_network)&session, "none that kolo_network_create has given");
  all_calls_are_dead((kolo_network)(uintptr_t)-1, "none that kolo_network_create has given");
}

static void without_mpi(const char* words) {
  kolo_session session = NULL;
  EXPECT(KOLO_STATE, kolo_initialize_f(0, NULL, &session), "kolo_initialize_f", words);
  EXPECT(KOLO_STATE, kolo_initialize(MPI_COMM_WORLD, NULL, &session), "kolo_initialize", words);
  CHECK(session == NULL);
}

static void wrong_sessions(MPI_Comm communicator) {
  static const char* const wrong[5][2] = {{"warn_after=soon", "seconds"},
                                          {"timeout=-1", "seconds"},
                                          {"threads=0", "at least 1"},
                                          {"on_failure=exit", "error or abort"},
                                          {"shared_memory", "auto or on or off"}};
  kolo_session session = NULL;
  EXPECT(KOLO_INPUT, kolo_initialize(MPI_COMM_NULL, NULL, &session), "kolo_initialize",
         "MPI_COMM_NULL");
  EXPECT(KOLO_INPUT, kolo_initialize_f(INT64_MAX, NULL, &session), "none of this MPI's integers");
#ifdef OPEN_MPI /* MPICH ends the process */
  EXPECT(KOLO_INPUT, kolo_initialize_f(123456, NULL, &session), "an integer that stands for none");
#endif
  EXPECT(KOLO_INPUT, kolo_initialize(communicator, NULL, NULL), "session is null", "on rank ");
  for (int i = 0; i < 5; ++i)
    EXPECT(KOLO_INPUT, kolo_initialize(communicator, wrong[i][0], &session), wrong[i][0],
           wrong[i][1]);
  EXPECT(KOLO_INPUT, kolo_initialize(communicator, " threads=1 colour=blue", &session),
         "colour=blue", "warn_after=SECONDS", "checked=on or off");
  if (size > 1) { /* wrong on one rank, told to all */
    if (rank == 1)
      EXPECT(KOLO_INPUT, kolo_initialize(communicator, "checked=maybe", &session), "on rank 1",
             "on or off");
    else
      EXPECT(KOLO_RANK, kolo_initialize(communicator, "", &session), "kolo_initialize", "rank 1");
  }
  CHECK(session == NULL);
}

static void wrong_networks(kolo_session session) {
  kolo_network network = NULL;
  char* const text = "model: {name: mlp, inputs: [1], outputs: [1]}\noptimiser: {name: adam}\n";
  EXPECT(KOLO_INPUT, kolo_network_create(session, "x.yaml", NULL), "kolo_network_create on rank ",
         "network is null");
  EXPECT(KOLO_INPUT, kolo_network_create(session, NULL, &network), "yaml is null");
  EXPECT(KOLO_INPUT, kolo_network_create(session, "missing.yaml", &network), "missing.yaml");
  EXPECT(KOLO_INPUT, kolo_network_create(session, text, &network), "optimiser", "optimizer");
  if (size > 1) { /* wrong on one rank, told to all */
    if (rank == 1)
      EXPECT(KOLO_INPUT, kolo_network_create(session, NULL, &network), "on rank 1", "yaml is null");
    else
      EXPECT(KOLO_RANK, kolo_network_create(session, yaml, &network), "rank 1");
  }
  CHECK(network == NULL);
}

static void refused_array(kolo_network network, kolo_array wrong, const char* words) {
  const kolo_array right = dense(here);
  kolo_array two[2];
  char on_rank[64];
  snprintf(on_rank, sizeof on_rank, "kolo_push on rank %d: inputs[1]", rank);
  two[0] = right;
  two[1] = wrong;
  EXPECT(KOLO_INPUT, kolo_push(network, two, 2, &right, 1, NULL, 0, NULL), on_rank, words);
  EXPECT(KOLO_INPUT, kolo_push(network, &right, 1, &wrong, 1, NULL, 0, NULL), "targets[0]", words);
  EXPECT(KOLO_INPUT, kolo_push(network, &right, 1, &right, 1, &wrong, 1, NULL), "extras[0]", words);
  EXPECT(KOLO_INPUT, kolo_infer(network, &right, 1, &wrong, 1), "kolo_infer", "outputs[0]", words);
  EXPECT(KOLO_INPUT, kolo_warm_up(network, &wrong, 1), "kolo_warm_up", "inputs[0]", words);
}

static void wrong_arrays(kolo_network network) {
  const kolo_array right = dense(here);
  kolo_array wrong = right;
  wrong.data = NULL;
  refused_array(network, wrong, "data is null");
  wrong = right;
  wrong.dtype = 9;
  refused_array(network, wrong, "dtype is 9; expected KOLO_FLOAT32 (1), ");
  wrong = right;
  wrong.rank = 0;
  refused_array(network, wrong, "rank is 0; expected 1 to 8");
  wrong.rank = 9;
  refused_array(network, wrong, "rank is 9; expected 1 to 8");
  wrong = right;
  wrong.order = 7;
  refused_array(network, wrong, "order is 7; expected KOLO_ROW (0)");
  wrong = right;
  wrong.shape[1] = 0;
  refused_array(network, wrong, "shape[1] is 0; expected at least 1");
  wrong = right;
  wrong.stride[0] = INT64_MAX / 4;
  refused_array(network, wrong, "beyond all memory");
  wrong = right;
  wrong.shape[0] = wrong.shape[1] = INT64_MAX / 2;
  refused_array(network, wrong, "beyond all memory");
  EXPECT(KOLO_INPUT, kolo_push(network, NULL, 1, &right, 1, NULL, 0, NULL),
         "inputs is null; expected 1 array");
  EXPECT(KOLO_INPUT, kolo_push(network, &right, -2, &right, 1, NULL, 0, NULL), "n_inputs is -2");
}

static void wrong_arguments(kolo_network network) {
  const kolo_array inputs = dense(here), outputs = dense(there);
  double number = 0;
  kolo_tick_report report = {0};
  kolo_push_report pushed = {0};
  EXPECT(KOLO_INPUT, kolo_push(network, &inputs, 1, &outputs, 1, NULL, 0, &pushed),
         "report: size is 0; expected");
  EXPECT(KOLO_INPUT, kolo_tick(network, 1, &report), "kolo_tick on rank ",
         "report: size is 0; expected sizeof, 80");
  EXPECT(KOLO_INPUT, kolo_get(network, "steps", NULL), "value is null");
  EXPECT(KOLO_INPUT, kolo_get(network, NULL, &number), "name is null");
  EXPECT(KOLO_INPUT, kolo_get(network, "happiness", &number), "happiness");
  EXPECT(KOLO_INPUT, kolo_log(network, NULL, 1, 1.0), "name is null");
  EXPECT(KOLO_INPUT, kolo_trains(network, NULL), "trains is null");
  EXPECT(KOLO_INPUT, kolo_save(network, NULL, 1), "kolo_save", "folder is null");
  EXPECT(KOLO_INPUT, kolo_restore(network, NULL, 1), "kolo_restore", "folder is null");
  if (size > 1) { /* collective calls that are wrong on rank 1 alone */
    const int expected = rank == 1 ? KOLO_INPUT : KOLO_RANK;
    EXPECT(expected, kolo_train(network, rank == 1 ? NULL : &inputs, 1, &outputs, 1, NULL, 0, NULL),
           rank == 1 ? "inputs is null" : "rank 1");
    EXPECT(expected, kolo_save(network, rank == 1 ? NULL : "folder", 1),
           rank == 1 ? "folder is null" : "rank 1");
  }
}

static void* fail_elsewhere(void* unused) {
  char text[16];
  (void)unused;
  CHECK(kolo_last_message(text, sizeof text) == 0 && text[0] == '\0');
  CHECK(kolo_network_destroy(NULL) == KOLO_STATE);
  CHECK(kolo_last_message(text, sizeof text) > sizeof text && strlen(text) == sizeof text - 1);
  return NULL;
}

static void messages_are_of_their_threads(void) {
  char before[4096], after[4096];
  pthread_t thread;
  EXPECT(KOLO_STATE, kolo_finalize(NULL), "kolo_finalize");
  CHECK(kolo_last_message(NULL, 0) == kolo_last_message(before, sizeof before));
  CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  kolo_last_message(after, sizeof after);
  CHECK(strcmp(before, after) == 0);
}

int main(int argc, char** argv) {
  MPI_Comm reversed = MPI_COMM_NULL;
  kolo_session session = NULL, second = NULL;
  kolo_network network = NULL, again = NULL, forgotten = NULL;
  write_yaml(yaml, sizeof yaml, argc > 1 ? argv[1] : ".", "");

  without_mpi("MPI is not initialized");
  no_handles("session handle is null");
  MPI_Init(&argc, &argv);
  no_handles("session handle is null");
  /* Ranks in messages are those of the communicator that was given. */
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_rank(reversed, &rank);
  MPI_Comm_size(reversed, &size);

  wrong_sessions(reversed);
  SUCCEEDS(kolo_initialize(reversed, "threads=1 checked=on", &session));
  SUCCEEDS(kolo_initialize_f(MPI_Comm_c2f(reversed), NULL, &second));
  wrong_networks(session);
  SUCCEEDS(kolo_network_create(session, yaml, &network));
  SUCCEEDS(kolo_network_create(second, yaml, &forgotten));
  if (network == NULL || forgotten == NULL) return 1;
  wrong_arrays(network);
  wrong_arguments(network);
  messages_are_of_their_threads();

  SUCCEEDS(kolo_network_destroy(network));
  all_calls_are_dead(network, "dead: it was destroyed by kolo_network_destroy");
  SUCCEEDS(kolo_network_create(session, yaml, &again));
  CHECK(again != network);
  all_calls_are_dead(network, "dead");
  SUCCEEDS(kolo_finalize(session));
  all_calls_are_dead(again, "dead: its session was finalized by kolo_finalize");
  EXPECT(KOLO_STATE, kolo_finalize(session), "dead: it was finalized");
  EXPECT(KOLO_STATE, kolo_network_create(session, yaml, &again), "session handle is dead");
  SUCCEEDS(kolo_tick(forgotten, 1, NULL)); /* the other session's lives on */

  MPI_Comm_free(&reversed);
  MPI_Finalize();
  all_calls_are_dead(forgotten, "MPI was finalized");
  EXPECT(KOLO_STATE, kolo_network_create(second, yaml, &again), "kolo_network_create",
         "MPI was finalized");
  EXPECT(KOLO_STATE, kolo_finalize(second), "kolo_finalize", "MPI was finalized");
  without_mpi("MPI was finalized");
  return failures == 0 ? 0 : 1;
}
