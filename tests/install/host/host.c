/* A program in C with an MPI of its own, whose network learns y = 3 x - 1 while it runs. */
#include <stdio.h>
#include <stdlib.h>

#include <kolo/kolo.h>

enum { n = 64 };

static void must(int status) {
  char message[1024];
  if (status == KOLO_OK) return;
  kolo_last_message(message, sizeof message);
  fprintf(stderr, "%s\n", message);
  exit(1);
}

int main(int argc, char** argv) {
  const char* yaml =
      "model: {name: mlp, inputs: [1], outputs: [1], hidden: []}\n"
      "training: {samples: cells, loss: mse, batch_size: 64, n_steps: 5}\n"
      "optimizer: {name: adam, lr: 0.05}\n";
  double x[n], y[n];
  const kolo_array inputs = {x, KOLO_FLOAT64, 1, KOLO_ROW, {n}, {0}};
  const kolo_array targets = {y, KOLO_FLOAT64, 1, KOLO_ROW, {n}, {0}};
  int rank = 0, ranks = 0;
  kolo_session session;
  kolo_network network;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  must(kolo_initialize(MPI_COMM_WORLD, "threads=1", &session));
  must(kolo_network_create(session, yaml, &network));
  for (int step = 1; step <= 100; ++step) {
    for (int i = 0; i < n; ++i) {
      x[i] = ((i * 7 + rank * 3 + step) % n) / (double)n * 4 - 2;
      y[i] = 3 * x[i] - 1;
    }
    must(kolo_push(network, &inputs, 1, &targets, 1, NULL, 0, NULL));
    must(kolo_tick(network, step, NULL));
  }
  x[0] = 1;
  must(kolo_infer(network, &inputs, 1, &targets, 1));
  if (rank == 0) printf("C on %d ranks: y(1) = %.1f\n", ranks, y[0]);
  must(kolo_finalize(session));
  return MPI_Finalize();
}
