#include "parallel/gradients/sparse_gradient.h"

#include <torch/nn/modules/embedding.h>
#include <numeric>

#include "kolo/base/checked.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

// The ranks' rows, [rows, ...], one after another.
torch::Tensor gather_rows(const Communicator& communicator, const torch::Tensor& mine,
                          std::span<const std::int64_t> rows) {
  auto shape = mine.sizes().vec();
  shape[0] = 1;
  const auto width = checked_product<std::int64_t>(shape);
  std::vector<std::int64_t> counts;
  for (const std::int64_t each : rows) counts.push_back(checked_multiply(each, width));
  shape[0] = std::reduce(rows.begin(), rows.end());
  const torch::Tensor all = torch::empty(shape, mine.options());
  communicator.all_gather_uneven(buffer_of(mine), buffer_of(all), counts);
  return all;
}

template <typename Embedding>
bool is_sparse_embedding(const torch::nn::Module& module) {
  const auto* const embedding = dynamic_cast<const Embedding*>(&module);
  return embedding != nullptr && embedding->options.sparse();
}

}  // namespace

SparseGradient::Result average_sparse(const Communicator& communicator, torch::Tensor gradient,
                                      const torch::Tensor& parameter) {
  const torch::NoGradGuard no_gradient;
  if (!gradient.defined()) gradient = torch::zeros_like(parameter).to_sparse(1);
  if (!gradient.is_sparse()) gradient = gradient.to_sparse(1);
  gradient = gradient.coalesce();
  const torch::Tensor indices = gradient.indices().t().contiguous();
  const torch::Tensor values = gradient.values().contiguous();
  SparseGradient::Result result;
  result.bytes = static_cast<std::int64_t>(indices.nbytes() + values.nbytes());
  const std::int64_t mine = values.size(0);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(rows));
  const torch::Tensor all_indices = gather_rows(communicator, indices, rows);
  // Divided first, so that no sum overflows; 16-bit types are added up in float32.
  const auto type = values.scalar_type();
  torch::Tensor all_values = gather_rows(communicator, values, rows);
  if (values.element_size() < 4) all_values = all_values.to(torch::kFloat);
  all_values.div_(communicator.active_ranks());
  result.gradient =
      torch::sparse_coo_tensor(all_indices.t(), all_values, parameter.sizes()).coalesce().to(type);
  return result;
}

std::vector<std::string> sparse_embeddings(const torch::nn::Module& module) {
  std::vector<std::string> names;
  const auto look_at = [&](const torch::nn::Module& each, const std::string& prefix) {
    if ((is_sparse_embedding<torch::nn::EmbeddingImpl>(each) ||
         is_sparse_embedding<torch::nn::EmbeddingBagImpl>(each)) &&
        each.named_parameters(false)["weight"].requires_grad())
      names.push_back(prefix + "weight");
  };
  look_at(module, "");
  for (const auto& item : module.named_modules("", false)) look_at(*item.value(), item.key() + ".");
  return names;
}

}  // namespace kolo
