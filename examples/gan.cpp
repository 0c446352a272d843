// Two networks that train against each other, on many processors: the generator turns noise into
// points of the plane, the discriminator tells them from points near a circle. The loop is that of
// LibTorch alone; each network has an optimizer that averages its gradients.
//
//   kolo run -n 2 gan [STEPS]     or any mpirun, or srun
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <torch/torch.h>

#include <kolo/parallel.h>

using torch::optim::Adam;

torch::nn::Sequential make_network(int inputs, int outputs) {
  return torch::nn::Sequential(torch::nn::Linear(inputs, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, outputs));
}

// Points at a distance of 1 from the origin, give or take 0.05.
torch::Tensor real_points(int count) {
  const auto angle = torch::rand({count, 1}) * 6.283185;
  const auto radius = 1 + 0.05 * torch::randn({count, 1});
  return torch::cat({radius * angle.cos(), radius * angle.sin()}, 1);
}

// Mean distance of points from the circle.
double distance_of(const torch::Tensor& points) {
  return (points.norm(2, 1) - 1).abs().mean().item<double>();
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 2000;
  const int batch = 64, noise = 4;
  const auto world = kolo::initialize();
  kolo::pin_device(world);
  kolo::seed_ranks(world, 1);  // other points on each rank

  auto generator = make_network(noise, 2);
  auto discriminator = make_network(2, 1);
  const auto options = torch::optim::AdamOptions(1e-3).betas({0.5, 0.99});
  kolo::DistributedOptimizer generator_optimizer(world, *generator,
                                                 Adam(generator->parameters(), options));
  kolo::DistributedOptimizer discriminator_optimizer(world, *discriminator,
                                                     Adam(discriminator->parameters(), options));
  kolo::broadcast_state(world, *generator, generator_optimizer.inner());
  kolo::broadcast_state(world, *discriminator, discriminator_optimizer.inner());

  const auto is_real = torch::ones({batch, 1}), is_fake = torch::zeros({batch, 1});
  const auto loss_of = [](const torch::Tensor& answers, const torch::Tensor& truth) {
    return torch::binary_cross_entropy_with_logits(answers, truth);
  };
  for (int step = 1; step <= steps; ++step) {
    // Two backward passes, whose sum is averaged.
    discriminator->zero_grad();
    loss_of(discriminator->forward(real_points(batch)), is_real).backward();
    const auto fake = generator->forward(torch::randn({batch, noise}));
    loss_of(discriminator->forward(fake.detach()), is_fake).backward();
    discriminator_optimizer.step();

    // This pass leaves gradients in the discriminator, which are zeroed above.
    generator->zero_grad();
    loss_of(discriminator->forward(fake), is_real).backward();
    generator_optimizer.step();

    if (step % std::max(steps / 4, 1) != 0) continue;
    const double distance = kolo::average(world, distance_of(fake.detach()));
    if (world.rank() == 0) std::printf("step %d  distance from the circle %.3f\n", step, distance);
  }
  return 0;
}
