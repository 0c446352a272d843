#include "kolo/tensor_parallel/part_dropout.h"

#include <mutex>

#include <ATen/Context.h>
#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

// One like the device's own, which other threads may use meanwhile.
at::Generator generator_like(const torch::Device& device, std::uint64_t seed) {
  auto shared = at::globalContext().defaultGenerator(device);
  at::Generator generator;
  {
    const std::lock_guard lock(shared.mutex());
    generator = shared.clone();
  }
  generator.set_current_seed(seed);
  return generator;
}

}  // namespace

MeshSeeds mesh_seeds(const DeviceMesh& mesh, std::uint64_t seed) {
  constexpr std::uint32_t of_groups = 1, of_ranks = 2;
  auto first = mesh.shape().coordinates_of(mesh.world().rank());
  first[static_cast<std::size_t>(MeshAxis::tensor)] = 0;
  const auto group = static_cast<std::uint64_t>(mesh.shape().rank_of(first));
  const auto rank = static_cast<std::uint64_t>(mesh.world().rank());
  return {.replicated = group == 0 ? seed : derive_seed(seed, of_groups, group),
          .own = derive_seed(seed, of_ranks, rank)};
}

PartDropoutImpl::PartDropoutImpl(double probability, std::uint64_t seed)
    : probability_(probability), seed_(seed) {
  if (probability >= 0 && probability < 1) return;
  throw InputError(
      fmt::format("parallel: part dropout: a probability of {}, expected 0 or more and less than 1",
                  probability));
}

void PartDropoutImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kolo::PartDropout(p={})", probability_);
}

void PartDropoutImpl::seed(std::uint64_t seed) {
  seed_ = seed;
  generator_ = {};
}

torch::Tensor PartDropoutImpl::forward(const torch::Tensor& input) {
  if (!is_training() || probability_ == 0) return input;
  if (!generator_.defined() || generator_.device() != input.device())
    generator_ = generator_like(input.device(), seed_);
  const double kept = 1 - probability_;
  const auto mask = torch::empty_like(input.detach()).bernoulli_(kept, generator_).div_(kept);
  return input * mask;
}

}  // namespace kolo
