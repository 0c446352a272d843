#pragma once

#include <cstdint>
#include <ostream>

#include <ATen/core/Generator.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "kolo/parallel/device_mesh.h"

// Random numbers where ranks share layers (kolo/tensor_parallel/parallel_linear.h): what is
// replicated needs the same masks on all ranks of a group, what is cut needs others on each.
namespace kolo {

// Seeds of one rank.
struct MeshSeeds {
  // The same within the group along the tensor axis, another one in each such group: for
  // LibTorch's generator, and so for all layers on replicated values.
  std::uint64_t replicated = 0;
  // Another one on every rank: for PartDropout.
  std::uint64_t own = 0;
};

// A pure function of the seed and this rank's place; rank 0's `replicated` is `seed` itself.
// Networks are made with `seed` on all ranks, so that their parts fit and replicas are equal;
// afterwards: torch::manual_seed(mesh_seeds(mesh, seed).replicated), in the place of seed_ranks().
[[nodiscard]] MeshSeeds mesh_seeds(const DeviceMesh& mesh, std::uint64_t seed);

// torch::nn::Dropout with random numbers of its own: for values that are cut among ranks, of heads,
// of features or of parts of a sequence, with a seed of its own on each. To go on exactly from a
// checkpoint, seed it anew in each step, with derive_seed(own, 0, step) for instance.
class PartDropoutImpl : public torch::nn::Cloneable<PartDropoutImpl> {
 public:
  // InputError for a probability outside [0, 1).
  PartDropoutImpl(double probability, std::uint64_t seed);
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  // In evaluation and for a probability of 0 the input itself.
  torch::Tensor forward(const torch::Tensor& input);
  // Masks from here on are those of this seed.
  void seed(std::uint64_t seed);

 private:
  double probability_;
  std::uint64_t seed_;
  at::Generator generator_;  // of the input's device; none before the first mask of a seed
};
TORCH_MODULE(PartDropout);

}  // namespace kolo
