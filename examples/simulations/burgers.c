/* A fluid in a ring, driven by waves: u_t + (u^2/2)_x = nu u_xx + f(x, t), on fine cells that
 * resolve its shocks, and on coarse ones that don't. A network learns from the fine solver what
 * flows through the faces of coarse cells; then a coarse solver goes on with it, and one with an
 * upwind flux. Every other rank only trains; of burgers_alone.yaml, for one rank, all do both.
 *
 *   mpirun -n 4 burgers burgers.yaml [restart]    goes on from what that has saved here */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <kolo/kolo.h> /* kolo */

enum { coarse_cells = 32, finer = 16, substeps = 16, halo = 2 };
enum { training_steps = 4000 /* max_steps of burgers.yaml */, shown_steps = 1000 };
static const double nu = 0.02, time_step = 0.024, length = 6.283185307179586;

/* This rank's part of the ring, in fine and in coarse cells. */
typedef struct {
  kolo_network network; /* kolo */
  MPI_Comm solvers;
  int rank, size, n; /* n coarse cells */
  struct {
    long step;
    double fine[coarse_cells * finer + 2]; /* between halos of one */
  } now;
} ring;

static void must(int status, const char* text) {
  char message[1024];
  if (status == 0) return;
  if (text == NULL) kolo_last_message(message, sizeof message); /* kolo */
  fprintf(stderr, "burgers: %s\n", text == NULL ? message : text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
static void fill_halo(const ring* r, double* u, int n, int width) {
  const int before = (r->rank + r->size - 1) % r->size, after = (r->rank + 1) % r->size;
  MPI_Sendrecv(u + width, width, MPI_DOUBLE, before, 0, u + width + n, width, MPI_DOUBLE, after, 0,
               r->solvers, MPI_STATUS_IGNORE);
  MPI_Sendrecv(u + n, width, MPI_DOUBLE, after, 1, u, width, MPI_DOUBLE, before, 1, r->solvers,
               MPI_STATUS_IGNORE);
}

/* The mean of the driving force over a cell. */
static double force(double x, double width, double t) {
  double sum = 0;
  for (int k = 1; k <= 3; ++k)
    sum += 0.7 * cos(k * x + 3 * sin(0.9 * t / k + k)) * sin(k * width / 2) / (k * width / 2);
  return sum;
}

/* u after a step with what flows through the n + 1 faces of its cells. */
static void advance(const ring* r, double* u, const double* flux, int n, double t, double dt) {
  const double width = length / (n * r->size), x = (r->rank * n + 0.5) * width;
  for (int i = 0; i < n; ++i)
    u[i] += dt * ((flux[i] - flux[i + 1]) / width + force(x + i * width, width, t));
}

/* A coarse time step of the fine solver; `mean`: what flows through the coarse faces meanwhile. */
static void advance_fine(ring* r, double* mean) {
  const int n = r->n * finer;
  const double width = length / (n * r->size), dt = time_step / substeps;
  double flux[coarse_cells * finer + 1];
  memset(mean, 0, (r->n + 1) * sizeof *mean);
  for (int sub = 0; sub < substeps; ++sub) {
    fill_halo(r, r->now.fine, n, 1);
    for (int i = 0; i <= n; ++i) {
      const double a = r->now.fine[i], b = r->now.fine[i + 1];
      flux[i] = (a * a + a * b + b * b) / 6 - nu * (b - a) / width;
    }
    for (int i = 0; i <= r->n; ++i) mean[i] += flux[i * finer] / substeps;
    advance(r, r->now.fine + 1, flux, n, r->now.step * time_step + (sub + 0.5) * dt, dt);
  }
}

/* What coarse cells know of the fine ones. */
static void filter(const ring* r, double* coarse) {
  memset(coarse, 0, (r->n + 2 * halo) * sizeof *coarse);
  for (int i = 0; i < r->n * finer; ++i) coarse[halo + i / finer] += r->now.fine[1 + i] / finer;
  fill_halo(r, coarse, r->n, halo);
}

/* The network's flux through a face, from two cells before and two after; or a lesson for it. */
static void ask(ring* r, double* coarse, double* flux, int teaches) {
  kolo_array in[4], out = {flux, KOLO_FLOAT64, 1, KOLO_ROW, {r->n + 1}, {0}}; /* kolo */
  for (int k = 0; k < 4; ++k) (in[k] = out, in[k].data = coarse + k);
  if (teaches) must(kolo_push(r->network, in, 4, &out, 1, NULL, 0, NULL), NULL); /* kolo */
  if (!teaches) must(kolo_infer(r->network, in, 4, &out, 1), NULL);              /* kolo */
}

/* Local Lax-Friedrichs (Rusanov). */
static void upwind(const ring* r, const double* coarse, double* flux) {
  for (int i = 0; i <= r->n; ++i) {
    const double a = coarse[halo - 1 + i], b = coarse[halo + i], speed = fmax(fabs(a), fabs(b));
    flux[i] = (a * a + b * b) / 4 - (speed / 2 + nu * coarse_cells / length) * (b - a);
  }
}

static double number_of(const ring* r, const char* name) {
  double number = 0;
  must(kolo_get(r->network, name, &number), NULL); /* kolo */
  return number;
}

static void learn(ring* r) {
  double coarse[coarse_cells + 2 * halo], flux[coarse_cells + 1];
  for (; number_of(r, "version") < training_steps; ++r->now.step) {
    filter(r, coarse);
    advance_fine(r, flux);
    ask(r, coarse, flux, 1);
    must(kolo_tick(r->network, r->now.step, NULL), NULL); /* kolo */
  }
}

/* This rank's cells, in a file of the simulation's own: written, or read. */
static void keep(ring* r, int reads) {
  char name[64];
  snprintf(name, sizeof name, "burgers.%d.restart", r->rank);
  FILE* file = fopen(name, reads ? "rb" : "wb");
  must(file == NULL, name);
  const size_t size = sizeof r->now;
  must((reads ? fread(&r->now, size, 1, file) : fwrite(&r->now, size, 1, file)) != 1, name);
  must(fclose(file), name);
}

/* Relative, in the Euclidean norm over all coarse cells. */
static double error_of(const ring* r, const double* u, const double* exact) {
  double squares[2] = {0, 0};
  for (int i = halo; i < halo + r->n; ++i) {
    squares[0] += (u[i] - exact[i]) * (u[i] - exact[i]);
    squares[1] += exact[i] * exact[i];
  }
  MPI_Allreduce(MPI_IN_PLACE, squares, 2, MPI_DOUBLE, MPI_SUM, r->solvers);
  return sqrt(squares[0] / squares[1]);
}

/* Coarse solvers beside the fine one. The file has two blocks: errors by time, and what is last. */
static void go_on(ring* r, FILE* file) {
  double u[3][coarse_cells + 2 * halo], flux[3][coarse_cells + 1], all[6][coarse_cells];
  double mean[3] = {0, 0, 0};
  for (int way = 0; way < 3; ++way) filter(r, u[way]);
  fprintf(file, "# errors: time, relative error of u with learned flux, with upwind flux\n");
  for (int step = 1; step <= shown_steps; ++step, ++r->now.step) {
    ask(r, u[1], flux[1], 0);
    upwind(r, u[2], flux[2]);
    advance_fine(r, flux[0]);
    filter(r, u[0]);
    fprintf(file, "%g", step * time_step);
    for (int way = 1; way < 3; ++way) {
      advance(r, u[way] + halo, flux[way], r->n, (r->now.step + 0.5) * time_step, time_step);
      fill_halo(r, u[way], r->n, halo);
      const double error = error_of(r, u[way], u[0]);
      mean[way] += error / shown_steps;
      fprintf(file, way == 1 ? " %.17g" : " %.17g\n", error);
    }
  }
  fprintf(file, "\n\n# field: x; u of the fine solver, learned, upwind; fluxes before the cell\n");
  for (int k = 0; k < 6; ++k)
    MPI_Gather(k < 3 ? u[k] + halo : flux[k - 3], r->n, MPI_DOUBLE, all[k], r->n, MPI_DOUBLE, 0,
               r->solvers);
  for (int i = 0; i < coarse_cells; ++i) {
    fprintf(file, "%g", (i + 0.5) * length / coarse_cells);
    for (int k = 0; k < 6; ++k) fprintf(file, k < 5 ? " %.17g" : " %.17g\n", all[k][i]);
  }
  printf("burgers: solver %d, checksum %.17g\n", r->rank, number_of(r, "checksum"));
  if (r->rank == 0)
    printf("burgers: error %.2f %% learned, %.2f %% upwind\n", 100 * mean[1], 100 * mean[2]);
}

int main(int argc, char** argv) {
  static ring r;
  kolo_session session; /* kolo */
  int rank = 0, size = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int serves = size > 1 && rank % 2 == 0; /* as burgers.yaml has it */
  MPI_Comm_split(MPI_COMM_WORLD, serves, rank, &r.solvers);
  MPI_Comm_rank(r.solvers, &r.rank);
  MPI_Comm_size(r.solvers, &r.size);
  r.n = coarse_cells / r.size;
  must(argc < 2 || coarse_cells % r.size != 0, "expected CONFIGURATION [restart], 2, 4 ... ranks");
  must(kolo_initialize(MPI_COMM_WORLD, "", &session), NULL);     /* kolo */
  must(kolo_network_create(session, argv[1], &r.network), NULL); /* kolo */
  if (serves) {
    must(kolo_serve(r.network, NULL), NULL); /* kolo */
  } else {
    const int restarts = argc > 2 && strcmp(argv[2], "restart") == 0;
    if (!restarts) learn(&r);
    keep(&r, restarts);
    must((restarts ? kolo_restore : kolo_save)(r.network, "burgers_saved", 1), NULL); /* kolo */
    FILE* file = fopen(r.rank == 0 ? "burgers.txt" : "/dev/null", "w");
    must(file == NULL, "can't write burgers.txt");
    go_on(&r, file);
    must(fclose(file), "can't write burgers.txt");
    must(kolo_finish(r.network), NULL); /* kolo */
  }
  must(kolo_finalize(session), NULL); /* kolo */
  return MPI_Finalize();
}
