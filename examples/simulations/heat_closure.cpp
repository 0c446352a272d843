// A plate whose conductivity depends on its temperature: u_t = div(k(u) grad u) on the unit square,
// explicit finite volumes, rows of cells dealt to the ranks. In the first half of the time a
// network learns k(u) from the cells of the running solver. In the second half it takes the place
// of the material's law, and beside it, to compare, so does the mean conductivity.
//
//   mpirun -n 2 heat_closure heat_closure.yaml [CELLS [FILE]]       CELLS along an edge: 64
//
// Lines that are about kolo end in // kolo.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include <mpi.h>

#include <kolo/comm/session.h>           // kolo
#include <kolo/online/online_network.h>  // kolo

// The material's law: hot, it conducts ten times better than cold.
double law(double u) {
  return 0.1 + 0.9 / (1 + std::exp(-20 * (u - 0.5)));
}

// A time step's length over the square of a cell's edge.
constexpr double ratio = 0.2;

// This rank's rows, and the ranks of the rows before and after them.
struct Slab {
  MPI_Comm ranks;
  int cells, rank = 0, size = 1, rows = 0, before = 0, after = 0;
  Slab(MPI_Comm all, int n_cells) : ranks(all), cells(n_cells) {
    MPI_Comm_rank(ranks, &rank);
    MPI_Comm_size(ranks, &size);
    rows = cells / size;
    before = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    after = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    if (cells < size || cells % size != 0)
      throw std::runtime_error("CELLS has to be a multiple of the number of ranks");
  }
};

// A number in each cell of this rank's rows, and in a halo of one cell around them.
struct Field {
  int rows, columns;
  std::vector<double> values;
  explicit Field(const Slab& slab)
      : rows(slab.rows), columns(slab.cells), values((rows + 2) * (columns + 2)) {}
  double* operator[](int row) { return values.data() + row * (columns + 2); }
  kolo::Array inside() { return {(*this)[1] + 1, {rows, columns}, {columns + 2, 1}}; }  // kolo
  kolo::Array whole() { return {(*this)[0], {rows + 2, columns + 2}}; }                 // kolo
};

struct Plate {
  Field u, k;  // temperature and conductivity
};

// The left wall is heated periodically, most in its middle; the right one is cold, and nothing gets
// through the others.
void fill_halo(const Slab& slab, Field& u, double time) {
  const int width = u.columns + 2, last = u.rows;
  MPI_Sendrecv(u[1], width, MPI_DOUBLE, slab.before, 0, u[last + 1], width, MPI_DOUBLE, slab.after,
               0, slab.ranks, MPI_STATUS_IGNORE);
  MPI_Sendrecv(u[last], width, MPI_DOUBLE, slab.after, 1, u[0], width, MPI_DOUBLE, slab.before, 1,
               slab.ranks, MPI_STATUS_IGNORE);
  if (slab.before == MPI_PROC_NULL) std::copy_n(u[1], width, u[0]);
  if (slab.after == MPI_PROC_NULL) std::copy_n(u[last], width, u[last + 1]);
  for (int i = 0; i <= last + 1; ++i) {
    const double y = std::clamp((slab.rank * slab.rows + i - 0.5) / slab.cells, 0.0, 1.0);
    u[i][0] = std::sin(std::numbers::pi * y) * (1 - std::cos(4 * std::numbers::pi * time)) / 2;
    u[i][u.columns + 1] = 0;
  }
}

void advance(Plate& plate) {
  Field &u = plate.u, &k = plate.k, next = u;
  for (int i = 1; i <= u.rows; ++i) {
    for (int j = 1; j <= u.columns; ++j) {
      const auto flow_from = [&](int row, int column) {
        return (k[i][j] + k[row][column]) / 2 * (u[row][column] - u[i][j]);
      };
      next[i][j] += ratio * (flow_from(i - 1, j) + flow_from(i + 1, j) + flow_from(i, j - 1) +
                             flow_from(i, j + 1));
    }
  }
  u.values.swap(next.values);
}

// Relative error over all ranks' cells, in the Euclidean norm.
double error_of(const Slab& slab, Field& u, Field& reference) {
  double squares[2] = {0, 0};
  for (int i = 1; i <= u.rows; ++i) {
    for (int j = 1; j <= u.columns; ++j) {
      squares[0] += std::pow(u[i][j] - reference[i][j], 2);
      squares[1] += std::pow(reference[i][j], 2);
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, squares, 2, MPI_DOUBLE, MPI_SUM, slab.ranks);
  return std::sqrt(squares[0] / squares[1]);
}

// All ranks' cells on rank 0.
std::vector<double> gather(const Slab& slab, Field& u) {
  std::vector<double> mine, all(slab.cells * slab.cells);
  for (int i = 1; i <= u.rows; ++i) mine.insert(mine.end(), u[i] + 1, u[i] + 1 + u.columns);
  const int count = static_cast<int>(mine.size());
  MPI_Gather(mine.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, 0, slab.ranks);
  return all;
}

struct Simulation {
  Slab slab;
  std::FILE* file;
  int half = static_cast<int>(std::lround(0.5 / ratio * slab.cells * slab.cells));  // of the steps
  Plate exact{Field(slab), Field(slab)}, learned = exact, mean = exact;
  double error_learned = 0, error_mean = 0;  // at the end

  void run(kolo::OnlineNetwork& network) {  // kolo
    double sum_of_k = 0;
    std::fprintf(file, "# errors: time, relative error with learned k, with mean k\n");
    for (int step = 1; step <= 2 * half; ++step) {
      const double time = 0.5 * step / half;
      fill_halo(slab, exact.u, time);
      std::ranges::transform(exact.u.values, exact.k.values.begin(), law);
      if (step <= half) {
        network.push(std::vector{exact.u.inside()}, std::vector{exact.k.inside()});  // kolo
        network.tick(step);                                                          // kolo
        for (const double k : exact.k.values) sum_of_k += k / exact.k.values.size() / half;
      } else {
        fill_halo(slab, learned.u, time);
        network.infer(std::vector{learned.u.whole()}, std::vector{learned.k.whole()});  // kolo
        advance(learned);
        fill_halo(slab, mean.u, time);
        advance(mean);
      }
      advance(exact);
      if (step == half) {
        learned.u = mean.u = exact.u;
        MPI_Allreduce(MPI_IN_PLACE, &sum_of_k, 1, MPI_DOUBLE, MPI_SUM, slab.ranks);
        std::ranges::fill(mean.k.values, sum_of_k / slab.size);
      } else if (step > half && step % (half / 50) == 0) {
        error_learned = error_of(slab, learned.u, exact.u);
        error_mean = error_of(slab, mean.u, exact.u);
        std::fprintf(file, "%g %g %g\n", time, error_learned, error_mean);
      }
    }
  }

  void write_end(const kolo::OnlineNetwork& network) {  // kolo
    std::fprintf(file, "\n\n# closure: temperature, k of the law, learned, mean\n");
    for (double u = 0, k = 0; u < 1.005; u += 0.01) {
      network.infer(std::vector{kolo::Array(&u, {1})}, std::vector{kolo::Array(&k, {1})});  // kolo
      std::fprintf(file, "%g %g %g %g\n", u, law(u), k, mean.k[1][1]);
    }
    std::fprintf(file, "\n\n# field: x, y, temperature with the law, with learned k, mean k\n");
    const std::vector<double> fields[] = {gather(slab, exact.u), gather(slab, learned.u),
                                          gather(slab, mean.u)};
    const int n = slab.rank == 0 ? slab.cells : 0;
    for (int i = 0; i < n * n; ++i)
      std::fprintf(file, "%s%g %g %g %g %g\n", i % n == 0 ? "\n" : "", (i % n + 0.5) / n,
                   (i / n + 0.5) / n, fields[0][i], fields[1][i], fields[2][i]);
  }
};

void run(int argc, char** argv) {
  if (argc < 2) throw std::runtime_error("expected CONFIGURATION [CELLS [FILE]]");
  const Slab slab(MPI_COMM_WORLD, argc > 2 ? std::stoi(argv[2]) : 64);
  const std::string path = slab.rank > 0 ? "/dev/null" : argc > 3 ? argv[3] : "heat_closure.txt";
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("can't write " + path);
  Simulation simulation{slab, file};
  auto session = kolo::initialize(slab.ranks);  // kolo
  {
    const std::vector length{"training.max_steps=" + std::to_string(simulation.half)};  // kolo
    const auto config = kolo::load_online_config(argv[1], length);                      // kolo
    kolo::OnlineNetwork network(session.communicator(), config);                        // kolo
    simulation.run(network);
    simulation.write_end(network);
  }
  session.finalize();  // kolo
  std::fclose(file);
  if (slab.rank == 0)
    std::printf("heat_closure on %d ranks: error %.2f %% with learned k, %.2f %% with mean k\n",
                slab.size, 100 * simulation.error_learned, 100 * simulation.error_mean);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heat_closure: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return MPI_Finalize();
}
