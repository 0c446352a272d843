#include "parallel/spatial/row_exchange.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

// A message and the memory that it is sent from or received in: [N, rows ..., C].
struct Parcel {
  RowMessage message;
  torch::Tensor memory;
};

torch::Tensor channels_last(const torch::Tensor& tensor) {
  return tensor.movedim(1, -1);
}

// As the tensor, but with other rows, which are undefined.
torch::Tensor with_rows(const torch::Tensor& tensor, const RowExchange& exchange,
                        const RowRange& rows) {
  auto sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(exchange.dimension)] = rows.size();
  return torch::empty(sizes, tensor.options(), tensor.suggest_memory_format());
}

// Views of some of the rows of a tensor that has the rows `all`.
class Rows {
 public:
  Rows(const torch::Tensor& tensor, const RowExchange& exchange, const RowRange& all)
      : tensor_(tensor), dimension_(exchange.dimension), all_(all) {}

  [[nodiscard]] torch::Tensor operator()(const RowRange& rows) const {
    return tensor_.narrow(dimension_, rows.begin - all_.begin, rows.size());
  }

 private:
  const torch::Tensor& tensor_;
  std::int64_t dimension_;
  RowRange all_;
};

RowRange common(const RowRange& a, const RowRange& b) {
  const auto begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Messages on their way, whose memory lives until they are done, also where an exception passes.
class Journey {
 public:
  Journey(const Communicator& communicator, const RowExchange& exchange,
          std::span<const Parcel> sent, std::span<const Parcel> received) {
    std::vector<Transfer> transfers;
    const auto tag = [&exchange](const Parcel& parcel) {
      return exchange.tag + static_cast<int>(parcel.message.direction);
    };
    for (const auto& parcel : received) {
      if (parcel.message.peer == communicator.rank()) {
        take_from_itself(parcel, sent);
      } else if (parcel.memory.numel() > 0) {
        transfers.push_back(
            Transfer::receive(buffer_of(parcel.memory), parcel.message.peer, tag(parcel)));
      }
    }
    for (const auto& parcel : sent) {
      if (parcel.message.peer == communicator.rank() || parcel.memory.numel() == 0) continue;
      transfers.push_back(
          Transfer::send(buffer_of(parcel.memory), parcel.message.peer, tag(parcel)));
    }
    if (!transfers.empty()) work_ = communicator.exchange_async(transfers, {.name = "halo"});
  }
  ~Journey() {
    try {
      work_.wait();
    } catch (...) {  // who waits for it has been told, or another exception is on its way
    }
  }
  Journey(const Journey&) = delete;
  Journey& operator=(const Journey&) = delete;

  void wait() const { work_.wait(); }

 private:
  // One rank on a periodic axis.
  static void take_from_itself(const Parcel& parcel, std::span<const Parcel> sent) {
    for (const auto& other : sent) {
      if (other.message.direction == parcel.message.direction) parcel.memory.copy_(other.memory);
    }
  }

  Work work_;
};

}  // namespace

torch::Tensor extended_rows(const Communicator& communicator, const torch::Tensor& tensor,
                            const RowExchange& exchange) {
  const auto &owned = exchange.owned, &extended = exchange.extended;
  const auto result = with_rows(tensor, exchange, extended);
  const Rows before(tensor, exchange, owned), after(result, exchange, extended);
  std::vector<Parcel> sent, received;
  for (const auto& message : exchange.messages.sends)
    sent.push_back({message, channels_last(before(message.rows)).contiguous()});
  for (const auto& message : exchange.messages.receives) {
    // In its place at once where that is one piece of memory.
    const auto place = channels_last(after(message.rows));
    received.push_back(
        {message, place.is_contiguous() ? place : torch::empty(place.sizes(), place.options())});
  }
  const Journey journey(communicator, exchange, sent, received);

  if (const auto kept = common(owned, extended); !kept.is_empty()) after(kept).copy_(before(kept));
  for (const auto& rows : {RowRange{extended.begin, owned.begin}, {owned.end, extended.end}}) {
    const bool is_received =
        std::ranges::find(exchange.messages.receives, rows, &RowMessage::rows) !=
        exchange.messages.receives.end();
    if (!rows.is_empty() && !is_received) after(rows).zero_();
  }
  journey.wait();
  for (const auto& parcel : received) {
    const auto place = channels_last(after(parcel.message.rows));
    if (place.data_ptr() != parcel.memory.data_ptr()) place.copy_(parcel.memory);
  }
  return result;
}

torch::Tensor folded_rows(const Communicator& communicator, const torch::Tensor& tensor,
                          const RowExchange& exchange) {
  const auto &owned = exchange.owned, &extended = exchange.extended;
  const auto result = with_rows(tensor, exchange, owned);
  const Rows before(tensor, exchange, extended), after(result, exchange, owned);
  std::vector<Parcel> sent, received;
  for (const auto& message : exchange.messages.receives)
    sent.push_back({message, channels_last(before(message.rows)).contiguous()});
  for (const auto& message : exchange.messages.sends) {
    const auto place = channels_last(after(message.rows));
    received.push_back({message, torch::empty(place.sizes(), place.options())});
  }
  const Journey journey(communicator, exchange, sent, received);

  const auto kept = common(owned, extended);
  if (!kept.is_empty()) after(kept).copy_(before(kept));
  if (kept.is_empty()) {
    result.zero_();
  } else {
    for (const auto& rows : {RowRange{owned.begin, kept.begin}, {kept.end, owned.end}}) {
      if (!rows.is_empty()) after(rows).zero_();
    }
  }
  journey.wait();
  // In the order of the list, below and then above, so that sums repeat to the bit.
  for (const auto& parcel : received) channels_last(after(parcel.message.rows)).add_(parcel.memory);
  return result;
}

}  // namespace kolo
