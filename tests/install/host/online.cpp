// A program in C++ with an MPI of its own, whose network learns y = 3 x - 1 while it runs.
#include <array>
#include <cstdio>

#include "kolo/comm/session.h"
#include "kolo/online/online_network.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto session = kolo::initialize(MPI_COMM_WORLD);
  const auto& ranks = session.communicator();
  std::array<double, 64> x{}, y{};
  const std::array inputs{kolo::Array(x.data(), {64})}, targets{kolo::Array(y.data(), {64})};
  {
    kolo::OnlineNetwork network(ranks, kolo::load_online_config(R"(
      model: {name: mlp, inputs: [1], outputs: [1], hidden: []}
      training: {samples: cells, loss: mse, batch_size: 64, n_steps: 5}
      optimizer: {name: adam, lr: 0.05}
    )"));
    for (int step = 1; step <= 100; ++step) {
      for (int i = 0; i < 64; ++i) {
        x[i] = (i * 7 + ranks.rank() * 3 + step) % 64 / 16.0 - 2;
        y[i] = 3 * x[i] - 1;
      }
      network.push(inputs, targets);
      network.tick(step);
    }
    x[0] = 1;
    network.infer(inputs, targets);
  }
  if (ranks.rank() == 0) std::printf("C++ on %d ranks: y(1) = %.1f\n", ranks.size(), y[0]);
  session.finalize();
  return MPI_Finalize();
}
