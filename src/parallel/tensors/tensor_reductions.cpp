// All-reduce and reduce-scatter of tensors.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/layout/virtual_ranks.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

void check_scales(torch::ScalarType type, const ReduceOptions& options) {
  if (type == torch::kBool && (options.prescale != 1 || options.postscale != 1)) {
    throw Error(fmt::format(
        "parallel: a reduction of booleans can't be scaled (by {} and {}); leave both at 1",
        options.prescale, options.postscale));
  }
}

void scale(const torch::Tensor& tensor, double factor) {
  if (factor == 1) return;
  if (torch::isFloatingType(tensor.scalar_type())) {
    tensor.mul_(factor);
  } else {
    tensor.copy_(tensor.to(torch::kDouble).mul_(factor));
  }
}

// 16-bit types are scaled in float32 too, or a sum that a factor brings back would overflow.
bool is_scaled_in_float32(torch::ScalarType type, const ReduceOptions& options) {
  return (type == torch::kHalf || type == torch::kBFloat16) &&
         (options.prescale != 1 || options.postscale != 1);
}

void reduce_flat(const Communicator& communicator, const torch::Tensor& flat,
                 const ReduceOptions& options) {
  if (is_scaled_in_float32(flat.scalar_type(), options)) {
    const torch::Tensor wide = flat.to(torch::kFloat);
    reduce_flat(communicator, wide, options);
    flat.copy_(wide);
    return;
  }
  check_scales(flat.scalar_type(), options);
  scale(flat, options.prescale);
  communicator.all_reduce(buffer_of(flat), options.op, options.call);
  scale(flat, options.postscale);
}

// Rank r's part of `rows` rows begins here.
std::int64_t first_row(std::int64_t rows, int ranks, int rank) {
  return rows / ranks * rank + std::min<std::int64_t>(rows % ranks, rank);
}

// Input of a reduce-scatter: a matrix with one row per rank, the rank's parts of all tensors (one
// dtype), padded with zeros to one length.
torch::Tensor parts_by_rank(torch::TensorList tensors, int ranks) {
  std::int64_t length = 0;
  for (const torch::Tensor& tensor : tensors) {
    const auto rows = tensor.size(0);
    if (rows > 0) length += divide_up(rows, ranks) * (tensor.numel() / rows);
  }
  torch::Tensor parts = torch::zeros({ranks, length}, tensors.front().options());
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t end = 0;
    for (const torch::Tensor& tensor : tensors) {
      const auto begin = first_row(tensor.size(0), ranks, rank);
      const auto part =
          tensor.narrow(0, begin, first_row(tensor.size(0), ranks, rank + 1) - begin).reshape({-1});
      parts[rank].narrow(0, end, part.numel()).copy_(part);
      end += part.numel();
    }
  }
  return parts;
}

torch::Tensor scattered(const Communicator& communicator, const torch::Tensor& parts,
                        std::int64_t count, const ReduceOptions& options) {
  if (is_scaled_in_float32(parts.scalar_type(), options))
    return scattered(communicator, parts.to(torch::kFloat), count, options).to(parts.scalar_type());
  check_scales(parts.scalar_type(), options);
  scale(parts, options.prescale);
  torch::Tensor mine = torch::empty({count}, parts.options());
  communicator.reduce_scatter(buffer_of(parts), buffer_of(mine), options.op, options.call);
  scale(mine, options.postscale);
  return mine;
}

}  // namespace

void all_reduce(const Communicator& communicator, const torch::Tensor& tensor, ReduceOp op) {
  all_reduce(communicator, tensor, ReduceOptions{.op = op});
}

void all_reduce(const Communicator& communicator, const torch::Tensor& tensor,
                const ReduceOptions& options) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor contiguous = tensor.contiguous();
  reduce_flat(communicator, contiguous, options);
  if (!contiguous.is_same(tensor)) tensor.copy_(contiguous);
}

void all_reduce(const Communicator& communicator, torch::TensorList tensors,
                const ReduceOptions& options) {
  const torch::NoGradGuard no_gradient;
  for (const FusedTensors& fused : fuse_by_type(tensors)) {
    reduce_flat(communicator, fused.flat, options);
    unfuse(fused, tensors);
  }
}

torch::Tensor all_reduced(const Communicator& communicator, const torch::Tensor& tensor,
                          const ReduceOptions& options) {
  const torch::NoGradGuard no_gradient;
  torch::Tensor result = tensor.detach().clone(torch::MemoryFormat::Contiguous);
  reduce_flat(communicator, result, options);
  return result;
}

torch::Tensor reduce_scatter(const Communicator& communicator, const torch::Tensor& tensor,
                             ReduceOp op) {
  return reduce_scatter(communicator, tensor, ReduceOptions{.op = op});
}

torch::Tensor reduce_scatter(const Communicator& communicator, const torch::Tensor& tensor,
                             const ReduceOptions& options) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor rows = as_rows(tensor);
  if (rows.size(0) % communicator.size() != 0)
    return reduce_scatter(communicator, torch::TensorList(rows), options).front();
  auto shape = rows.sizes().vec();
  shape.front() /= communicator.size();
  const torch::Tensor parts = options.prescale == 1 ? rows : rows.clone();
  return scattered(communicator, parts, rows.numel() / communicator.size(), options).view(shape);
}

std::vector<torch::Tensor> reduce_scatter(const Communicator& communicator,
                                          torch::TensorList tensors, const ReduceOptions& options) {
  const torch::NoGradGuard no_gradient;
  std::vector<torch::Tensor> results(tensors.size());
  for (const FusedTensors& fused : fuse_by_type(tensors)) {
    std::vector<torch::Tensor> rows;
    for (const std::size_t index : fused.indices) rows.push_back(as_rows(tensors[index]));
    const torch::Tensor parts = parts_by_rank(rows, communicator.size());
    const torch::Tensor mine = scattered(communicator, parts, parts.size(1), options);
    std::int64_t end = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto shape = rows[i].sizes().vec();
      const auto begin = first_row(shape.front(), communicator.size(), communicator.rank());
      shape.front() =
          first_row(shape.front(), communicator.size(), communicator.rank() + 1) - begin;
      const auto count = c10::multiply_integers(shape);
      results[fused.indices[i]] = mine.narrow(0, end, count).clone().view(shape);
      end += count;
    }
  }
  return results;
}

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
