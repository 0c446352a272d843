// Broadcast, all-gather and all-to-all of tensors.
#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

// Description that ranks exchange of tensors whose first dimensions may differ.
struct TensorHeader {
  std::int64_t type = 0;        // of data, or `refused`
  std::int64_t dimensions = 0;  // 0: of a rank that has joined (Communicator::join()), without rows
  std::int64_t rows = 0;
  std::array<std::int64_t, 13> sizes{};  // of the other dimensions; the last has all that are left

  [[nodiscard]] bool has_joined() const { return dimensions == 0; }
  [[nodiscard]] bool is_compatible(const TensorHeader& other) const {
    return type == other.type && dimensions == other.dimensions && sizes == other.sizes;
  }
};
constexpr std::size_t header_numbers = sizeof(TensorHeader) / sizeof(std::int64_t);

constexpr std::int64_t refused = -1;  // this rank's arguments were wrong

// "float32 [*, 4, 5]"
std::string describe(const TensorHeader& header) {
  const auto others =
      std::min<std::size_t>(header.sizes.size(), static_cast<std::size_t>(header.dimensions - 1));
  std::string text = fmt::format("{} [*", name_of(static_cast<DataType>(header.type)));
  for (const auto size : std::span(header.sizes).first(others)) text += fmt::format(", {}", size);
  return text + "]";
}

// `rows` has at least one dimension.
TensorHeader header_of(const torch::Tensor& rows) {
  TensorHeader header{static_cast<std::int64_t>(data_type_of(rows.scalar_type())), rows.dim(),
                      rows.size(0)};
  for (std::int64_t i = 1; i < rows.dim(); ++i) {
    const auto axis = static_cast<std::size_t>(i - 1);
    if (axis < header.sizes.size())
      header.sizes[axis] = rows.size(i);
    else
      header.sizes.back() = checked_multiply(header.sizes.back(), rows.size(i));
  }
  return header;
}

// Error unless all ranks' tensors have one dtype and one shape but for the first dimension. It
// names two ranks and what they have. `headers` by rank, every `stride`-th of them.
void require_compatible(std::span<const TensorHeader> headers, const char* collective,
                        std::size_t stride = 1) {
  for (std::size_t i = 0; i < headers.size(); i += stride) {
    if (headers[i].type == refused) {
      throw Error(
          fmt::format("parallel: {}: rank {} passed arguments that don't fit; see its error",
                      collective, i / stride));
    }
  }
  std::size_t first = 0;  // of those that have not joined
  while (first < headers.size() && headers[first].has_joined()) first += stride;
  for (std::size_t i = first; i < headers.size(); i += stride) {
    if (headers[i].has_joined() || headers[first].is_compatible(headers[i])) continue;
    throw Error(fmt::format(
        "parallel: {}: rank {} passed {}, rank {} {}; the dtype and all dimensions but the first "
        "must be the same on every rank",
        collective, first / stride, describe(headers[first]), i / stride, describe(headers[i])));
  }
}

std::span<std::int64_t> numbers_of(std::span<TensorHeader> headers) {
  return {reinterpret_cast<std::int64_t*>(headers.data()), headers.size() * header_numbers};
}

// The headers of several tensors of every rank: [rank][tensor].
std::vector<TensorHeader> exchange_headers(const Communicator& communicator,
                                           const std::vector<torch::Tensor>& tensors,
                                           const CallOptions& call) {
  std::vector<TensorHeader> mine;
  for (const torch::Tensor& tensor : tensors) mine.push_back(header_of(tensor));
  std::vector<TensorHeader> all(mine.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(numbers_of(mine), numbers_of(all), call);
  for (std::size_t tensor = 0; tensor < mine.size(); ++tensor)
    require_compatible(std::span(all).subspan(tensor), "all-gather", mine.size());
  return all;
}

std::int64_t row_count(const torch::Tensor& rows) {
  return checked_product(std::span<const std::int64_t>(rows.sizes().slice(1)));
}

torch::Tensor gather_flat(const Communicator& communicator, const torch::Tensor& flat,
                          std::span<const std::int64_t> counts, const CallOptions& call) {
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total = checked_add(total, count);
  torch::Tensor output = torch::empty({total}, flat.options());
  if (std::all_of(counts.begin(), counts.end(), [&](auto count) { return count == counts[0]; })) {
    communicator.all_gather(buffer_of(flat), buffer_of(output), call);
  } else {
    communicator.all_gather_uneven(buffer_of(flat), buffer_of(output), counts, call);
  }
  return output;
}

// Gathers the tensors of one dtype; `headers` are those of all `tensors`.
void gather_fused(const Communicator& communicator, const FusedTensors& fused,
                  const std::vector<torch::Tensor>& tensors, std::span<const TensorHeader> headers,
                  const CallOptions& call, std::vector<torch::Tensor>& results) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto count_of = [&](std::size_t rank, std::size_t tensor) {
    return checked_multiply(headers[rank * tensors.size() + tensor].rows,
                            row_count(tensors[tensor]));
  };
  std::vector<std::int64_t> counts(ranks, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const std::size_t tensor : fused.indices)
      counts[rank] = checked_add(counts[rank], count_of(rank, tensor));
  }
  const torch::Tensor gathered = gather_flat(communicator, fused.flat, counts, call);
  struct Gathered {
    std::vector<torch::Tensor> pieces;
    std::int64_t rows = 0;
  };
  std::vector<Gathered> whole(fused.indices.size());
  std::int64_t begin = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < fused.indices.size(); ++i) {
      const auto count = count_of(rank, fused.indices[i]);
      whole[i].pieces.push_back(gathered.narrow(0, begin, count));
      whole[i].rows += headers[rank * tensors.size() + fused.indices[i]].rows;
      begin += count;
    }
  }
  for (std::size_t i = 0; i < fused.indices.size(); ++i) {
    auto shape = tensors[fused.indices[i]].sizes().vec();
    shape.front() = whole[i].rows;
    results[fused.indices[i]] =
        (whole.size() == 1 ? gathered : torch::cat(whole[i].pieces)).reshape(shape);
  }
}

// Headers of what every rank sends here, or the error of a rank whose arguments are wrong.
std::vector<TensorHeader> exchange_splits(const Communicator& communicator,
                                          const torch::Tensor& rows,
                                          std::span<const std::int64_t> splits,
                                          const CallOptions& call) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const bool is_valid =
      splits.size() == ranks &&
      std::all_of(splits.begin(), splits.end(), [](auto n) { return n >= 0; }) &&
      std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) == rows.size(0);
  std::vector<TensorHeader> sent(ranks, is_valid ? header_of(rows) : TensorHeader{refused, 1}),
      received(ranks);
  for (std::size_t rank = 0; is_valid && rank < ranks; ++rank) sent[rank].rows = splits[rank];
  const std::vector<std::int64_t> counts(ranks, header_numbers);
  communicator.all_to_all(numbers_of(sent), counts, numbers_of(received), counts, call);
  if (!is_valid) {
    throw Error(fmt::format(
        "parallel: all-to-all: rank {}'s splits [{}] don't fit a tensor of {} rows; expected {} "
        "numbers of at least 0 that add up to it (none at all: equal ones)",
        communicator.rank(), fmt::join(splits, ", "), rows.size(0), ranks));
  }
  require_compatible(received, "all-to-all");
  return received;
}

}  // namespace

void broadcast(const Communicator& communicator, const torch::Tensor& tensor, int root,
               CallOptions call) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor contiguous = tensor.contiguous();
  communicator.broadcast(buffer_of(contiguous), root, std::move(call));
  if (!contiguous.is_same(tensor)) tensor.copy_(contiguous);
}

void broadcast(const Communicator& communicator, torch::TensorList tensors, int root,
               CallOptions call) {
  const torch::NoGradGuard no_gradient;
  for (const FusedTensors& fused : fuse_by_type(tensors)) {
    communicator.broadcast(buffer_of(fused.flat), root, call);
    unfuse(fused, tensors);
  }
}

torch::Tensor all_gather(const Communicator& communicator, const torch::Tensor& tensor,
                         CallOptions call) {
  return all_gather(communicator, torch::TensorList(tensor), std::move(call)).front();
}

std::vector<torch::Tensor> all_gather(const Communicator& communicator, torch::TensorList tensors,
                                      CallOptions call) {
  const torch::NoGradGuard no_gradient;
  if (tensors.empty()) return {};
  std::vector<torch::Tensor> rows, results(tensors.size());
  for (const torch::Tensor& tensor : tensors) rows.push_back(as_rows(tensor));
  const auto headers = exchange_headers(communicator, rows, call);
  for (const FusedTensors& fused : fuse_by_type(rows))
    gather_fused(communicator, fused, rows, headers, call, results);
  return results;
}

ReceivedRows all_to_all(const Communicator& communicator, const torch::Tensor& tensor,
                        std::span<const std::int64_t> splits, CallOptions call) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor rows = as_rows(tensor);
  const auto ranks = communicator.size();
  std::vector<std::int64_t> sent(splits.begin(), splits.end());
  if (splits.empty()) sent.assign(static_cast<std::size_t>(ranks), rows.size(0) / ranks);
  const auto headers = exchange_splits(communicator, rows, sent, call);

  ReceivedRows received;
  auto shape = rows.sizes().vec();
  shape.front() = 0;
  std::vector<std::int64_t> receive_counts;
  for (const TensorHeader& header : headers) {
    received.splits.push_back(header.rows);
    shape.front() = checked_add(shape.front(), header.rows);
    receive_counts.push_back(checked_multiply(header.rows, row_count(rows)));
  }
  for (std::int64_t& count : sent) count = checked_multiply(count, row_count(rows));
  received.tensor = torch::empty(shape, rows.options());
  communicator.all_to_all(buffer_of(rows), sent, buffer_of(received.tensor), receive_counts,
                          std::move(call));
  return received;
}

}  // namespace kolo
