#include "kolo/parallel/ordered_total.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "kolo/layout/virtual_ranks.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

torch::Tensor ordered_total(const Communicator& communicator, int virtual_ranks,
                            const torch::Tensor& mine) {
  const torch::NoGradGuard no_gradient;
  const auto numbers = mine.size(1);
  auto all = mine.contiguous();
  if (communicator.size() > 1) {
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < communicator.size(); ++rank)
      counts.push_back(parts_of_rank(virtual_ranks, communicator.size(), rank).size() * numbers);
    const auto input = all;
    all = torch::empty({virtual_ranks, numbers}, mine.options());
    communicator.all_gather_uneven(buffer_of(input), buffer_of(all), counts, {.name = "metrics"});
  }
  const auto add = [](torch::Tensor& left, const torch::Tensor& right) { left = left + right; };
  PartSums<torch::Tensor> sums;
  for (int part = 0; part < virtual_ranks; ++part) sums.add({0, part}, all[part], add);
  return std::move(sums).total(add).clone();
}

}  // namespace kolo
