// The first parallel program: pi by random points. Each rank throws points of its own into a square;
// one all-reduce adds up how many fell into the quarter circle.
//
//   kolo run -n 2 pi [MILLIONS]     or any mpirun, or srun; MILLIONS of points in all, 100 by default
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <kolo/parallel.h>

int main(int argc, char** argv) {
  const auto world = kolo::initialize();
  const std::int64_t points = (argc > 1 ? std::atoll(argv[1]) : 100) * 1'000'000;
  const std::int64_t own = points / world.size() + (world.rank() < points % world.size() ? 1 : 0);

  std::mt19937_64 random(kolo::seed_ranks(world, 1));  // other numbers on each rank
  std::uniform_real_distribution<double> coordinate(0, 1);
  std::int64_t inside = 0;
  for (std::int64_t point = 0; point < own; ++point) {
    const double x = coordinate(random), y = coordinate(random);
    inside += x * x + y * y < 1 ? 1 : 0;
  }

  const auto all_inside = kolo::all_reduce_value(world, inside, kolo::ReduceOp::sum);
  if (world.rank() == 0)
    std::printf("pi is about %.5f, by %lld points on %d ranks\n",
                4.0 * static_cast<double>(all_inside) / static_cast<double>(points),
                static_cast<long long>(points), world.size());
  return 0;
}
