// A small transformer that learns which word follows which, on a mesh of data x tensor ranks: the
// ranks along the tensor axis share its layers, those along the data axis the sequences. With any
// numbers of ranks the losses are those of one rank.
//
//   kolo run -n 4 tensor_parallel 2 [STEPS]     two by two; or any mpirun, or srun
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include <kolo/parallel.h>
#include <kolo/tensor_parallel.h>

#include "parallel_transformer.h"

// Each word says which comes next; sequences differ in their first one. [length + 1, N]
torch::Tensor sequences_of(std::int64_t first, std::int64_t count,
                           const TransformerOptions& options) {
  constexpr std::int64_t length = 16;
  std::vector<torch::Tensor> words = {
      (torch::arange(first, first + count) * 7).remainder(options.words)};
  for (std::int64_t i = 0; i < length; ++i)
    words.push_back((words.back() * 5 + 3).remainder(options.words));
  return torch::stack(words);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s TENSOR_RANKS [STEPS]\n", argv[0]);
    return 2;
  }
  const int steps = argc > 2 ? std::atoi(argv[2]) : 100;
  const std::int64_t batch = 8;
  const auto world = kolo::initialize();
  const auto device = kolo::pin_device(world);
  const kolo::DeviceMesh mesh(world, {.tensor = std::atoi(argv[1])});
  const auto& group = mesh.axis(kolo::MeshAxis::tensor);
  const auto& replicas = mesh.replicas();

  // Parts of the same network on all ranks; random numbers of their own from here on.
  torch::manual_seed(1);
  const TransformerOptions options{.sequence_parts = true};
  ParallelLanguageModel model(group, options);
  model->to(device);
  torch::manual_seed(kolo::mesh_seeds(mesh, 1).replicated);

  const auto arena = std::make_shared<kolo::ParameterArena>(replicas, *model);
  kolo::GradientReducer reducer(replicas, arena);
  kolo::ArenaOptimizer optimizer(arena, kolo::make_adam({}));
  const std::int64_t share = batch / replicas.size();
  for (int step = 1; step <= steps; ++step) {
    const auto first = step * batch + replicas.rank() * share;
    const auto words = sequences_of(first, share, options).to(device);
    const auto length = words.size(0) - 1;
    const auto logits = model->forward(words.narrow(0, 0, length));
    const auto loss = kolo::vocabulary_cross_entropy(group, logits, words.narrow(0, 1, length));
    loss.backward();
    reducer.finish();                             // the average over replicas
    kolo::sum_sequence_gradients(group, *model);  // of what each rank used for its part
    const double norm = kolo::clip_gradient_norm(mesh, *model, 1);
    for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket)
      optimizer.update(bucket, 1e-3, step);
    optimizer.finish();
    reducer.clear_gradients();

    if (step != 1 && step % std::max(steps / 4, 1) != 0) continue;
    const double mean_loss = kolo::average(replicas, loss.item<double>());
    if (world.rank() == 0)
      std::printf("step %d  loss %.4f  gradient norm %.4f\n", step, mean_loss, norm);
  }

  // File that a network on one rank can be loaded from.
  const auto whole = kolo::whole_parameters(group, *model);
  if (world.rank() == 0) {
    torch::serialize::OutputArchive archive;
    for (const auto& item : whole) archive.write(item.key(), item.value());
    archive.save_to("transformer.pt");
  }
  return 0;
}
