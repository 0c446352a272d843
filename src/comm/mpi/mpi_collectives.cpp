#include "comm/mpi/mpi_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "comm/shared_memory/reduce_kernels.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr auto data_types = static_cast<std::size_t>(DataType::boolean) + 1;
constexpr auto reduce_ops = static_cast<std::size_t>(ReduceOp::product) + 1;

// The table is in the order of DataType.
MPI_Datatype mpi_type(DataType type) {
  const std::array types = {MPI_DOUBLE,  MPI_FLOAT,   MPI_UINT16_T, MPI_UINT16_T, MPI_INT64_T,
                            MPI_INT32_T, MPI_INT16_T, MPI_INT8_T,   MPI_UINT8_T,  MPI_UINT8_T};
  static_assert(types.size() == data_types);
  return types[static_cast<std::size_t>(type)];
}

template <DataType type, ReduceOp op>
void own_operation(void* input, void* in_out, int* length, MPI_Datatype*) {
  auto* const result = static_cast<std::byte*>(in_out);
  const std::array<const std::byte*, 2> sources = {static_cast<std::byte*>(input), result};
  reduce(type, op, sources, std::span(&result, 1), *length, 1);
}

template <std::size_t... I>
constexpr auto own_operations_of(std::index_sequence<I...>) {
  return std::array<MPI_User_function*, sizeof...(I)>{
      own_operation<static_cast<DataType>(I / reduce_ops),
                    static_cast<ReduceOp>(I % reduce_ops)>...};
}

// Received at a time in a reduction by owners.
constexpr std::size_t received_bytes = std::size_t{8} << 20;

// Elements that go through memory of MpiCalls' own at a time, at most.
constexpr std::int64_t copied_count = std::int64_t{1} << 20;

// Elements that each of the ranks may send at a time.
std::int64_t elements_received(DataType type, int ranks) {
  return static_cast<std::int64_t>(received_bytes / size_of(type)) / ranks + 1;
}

// Memory that is written before it is read.
std::unique_ptr<std::byte[]> memory_for(DataType type, std::int64_t count) {
  return std::make_unique_for_overwrite<std::byte[]>(
      checked_multiply(static_cast<std::size_t>(count), size_of(type)));
}

std::byte* at(const Buffer& buffer, std::int64_t element) {
  return kolo::at(buffer.data, element, buffer.type);
}

Buffer range_of(const Buffer& whole, std::int64_t offset, std::int64_t count) {
  return {at(whole, offset), count, whole.type};
}

// Calls function(offset, count) for consecutive chunks of [0, total); count is an int, as MPI wants
// it.
template <typename Function>
void for_chunks(std::int64_t total, std::int64_t largest, const Function& function) {
  for (std::int64_t offset = 0; offset < total; offset += largest) {
    function(offset, static_cast<int>(std::min(largest, total - offset)));
  }
}

}  // namespace

MpiCollectives::MpiCollectives(const MpiGroup& group, std::int64_t largest_count,
                               std::function<void()> look)
    : calls_(group, std::move(look)),
      rank_(group.rank()),
      size_(group.size()),
      largest_count_(largest_count) {
  if (calls_.can_end_early()) largest_count_ = std::min(largest_count, copied_count);
  for (MPI_User_function* const function :
       own_operations_of(std::make_index_sequence<data_types * reduce_ops>()))
    check_mpi(MPI_Op_create(function, 1, &own_operations_.emplace_back()), "MPI_Op_create");
}

void MpiCollectives::free() {
  for (MPI_Op& operation : own_operations_) MPI_Op_free(&operation);
}

MPI_Op MpiCollectives::operation(DataType type, ReduceOp op) const {
  const bool is_wide = size_of(type) >= sizeof(float);
  if (is_wide && (op == ReduceOp::sum || op == ReduceOp::average)) return MPI_SUM;
  if (is_wide && op == ReduceOp::product) return MPI_PROD;
  return own_operations_[static_cast<std::size_t>(type) * reduce_ops +
                         static_cast<std::size_t>(op)];
}

void MpiCollectives::execute(const CollectiveCall& call) {
  switch (call.collective) {
    case Collective::all_reduce:
      return all_reduce(call.output, call.op, call.divisor);
    case Collective::broadcast:
      return broadcast(call.output, call.peer);
    case Collective::all_gather:
      return all_gather(call.input, call.output,
                        std::vector(static_cast<std::size_t>(size_), call.input.count));
    case Collective::all_gather_uneven:
      return all_gather(call.input, call.output, call.receive_counts);
    case Collective::reduce_scatter:
      return reduce_scatter(call);
    case Collective::all_to_all:
      return all_to_all(call);
    default:
      return calls_.barrier();
  }
}

void MpiCollectives::all_reduce(const Buffer& buffer, ReduceOp op, int divisor) {
  if (buffer.count == 0) return;
  if (needs_wide_partials(buffer.type, op)) return reduce_by_owners(buffer, buffer, op, divisor);
  if (op == ReduceOp::average) {
    std::byte* const values = at(buffer, 0);
    const std::byte* const source = values;
    reduce(buffer.type, op, std::span(&source, 1), std::span(&values, 1), buffer.count, divisor);
  }
  for_chunks(buffer.count, largest_count_, [&](std::int64_t offset, int count) {
    calls_.all_reduce(at(buffer, offset), count, mpi_type(buffer.type), operation(buffer.type, op));
  });
}

void MpiCollectives::all_reduce_partial(const Buffer& partial, const Buffer& result, ReduceOp op) {
  if (partial.type == result.type) return all_reduce(result, op, 1);
  reduce_by_owners(partial, result, op, 1);
}

// Reduces types whose partial results can't travel. Each rank owns a part: it receives that part of
// all ranks, reduces them in one pass, in the order of ranks, and sends the result to all. That
// takes as many bytes and messages as a ring.
void MpiCollectives::reduce_by_owners(const ConstBuffer& input, const Buffer& output, ReduceOp op,
                                      int divisor) {
  const Buffer source(const_cast<void*>(input.data), input.count, input.type);  // only read
  const auto largest_piece = std::min(largest_count_, elements_received(input.type, size_));
  for (std::int64_t begin = 0; begin < input.count; begin += largest_piece * size_) {
    const auto count = std::min(largest_piece * size_, input.count - begin);
    const auto part = divide_up(count, size_);
    std::vector<std::int64_t> counts;
    for (int owner = 0; owner < size_; ++owner)
      counts.push_back(std::clamp(count - owner * part, std::int64_t{0}, part));
    const auto part_for = [&](int owner) {
      return range_of(source, begin + std::min(count, owner * part),
                      counts[static_cast<std::size_t>(owner)]);
    };
    const Buffer chunk = range_of(output, begin, count);
    const Buffer mine =
        range_of(chunk, std::min(count, rank_ * part), counts[static_cast<std::size_t>(rank_)]);
    reduce_part(part_for, mine, op, divisor);
    all_gather(mine, chunk, counts);
  }
}

// Reduces this rank's part into `output`. `part_for(rank)` is this rank's operand of the part that
// `rank` reduces.
template <typename PartFor>
void MpiCollectives::reduce_part(const PartFor& part_for, const Buffer& output, ReduceOp op,
                                 int divisor) {
  const Buffer own = part_for(rank_);
  const auto memory = memory_for(own.type, own.count * (size_ - 1));
  const Buffer received(memory.get(), own.count * (size_ - 1), own.type);
  std::vector<const std::byte*> sources(static_cast<std::size_t>(size_), at(own, 0));
  for (int distance = 1; distance < size_; ++distance) {
    const int to = (rank_ + distance) % size_, from = (rank_ - distance + size_) % size_;
    const Buffer operand = range_of(received, (distance - 1) * own.count, own.count);
    exchange(part_for(to), to, operand, from);
    sources[static_cast<std::size_t>(from)] = at(operand, 0);
  }
  if (output.count > 0)
    reduce(own.type, output.type, op, sources, at(output, 0), output.count, divisor);
}

void MpiCollectives::broadcast(const Buffer& buffer, int root) {
  for_chunks(buffer.count, largest_count_, [&](std::int64_t offset, int count) {
    calls_.broadcast(at(buffer, offset), count, mpi_type(buffer.type), root);
  });
}

void MpiCollectives::all_gather(const ConstBuffer& input, const Buffer& output,
                                std::span<const std::int64_t> counts) {
  if (output.count == 0) return calls_.barrier();
  const auto starts = starts_of(counts);
  const auto part = [&](int owner) {
    const auto index = static_cast<std::size_t>(owner);
    return Buffer(at(output, starts[index]), counts[index], output.type);
  };
  const Buffer mine = part(rank_);
  if (mine.count > 0 && mine.data != input.data) std::memcpy(mine.data, input.data, mine.bytes());
  // Larger than one call takes: every rank's part is a broadcast, in chunks.
  if (output.count > largest_count_) {
    for (int owner = 0; owner < static_cast<int>(counts.size()); ++owner)
      broadcast(part(owner), owner);
    return;
  }
  const std::vector<int> int_counts(counts.begin(), counts.end());
  const std::vector<int> int_starts(starts.begin(), starts.end());
  calls_.all_gather(at(output, 0), int_counts, int_starts, mpi_type(output.type));
}

void MpiCollectives::reduce_scatter(const CollectiveCall& call) {
  const ConstBuffer& input = call.input;
  const Buffer& output = call.output;
  const Buffer source(const_cast<void*>(input.data), input.count, input.type);  // only read
  const auto largest_piece = std::min(largest_count_, elements_received(input.type, size_));
  for_chunks(output.count, largest_piece, [&](std::int64_t offset, int count) {
    const auto part_for = [&](int owner) {
      return range_of(source, owner * output.count + offset, count);
    };
    reduce_part(part_for, range_of(output, offset, count), call.op, call.divisor);
  });
}

void MpiCollectives::all_to_all(const CollectiveCall& call) {
  const ConstBuffer& input = call.input;
  const Buffer& output = call.output;
  const auto &send_counts = call.send_counts, &receive_counts = call.receive_counts;
  const auto send_starts = starts_of(send_counts), receive_starts = starts_of(receive_counts);
  const Buffer source(const_cast<void*>(input.data), input.count, input.type);  // only read
  for (int distance = 0; distance < size_; ++distance) {
    const int to = (rank_ + distance) % size_, from = (rank_ - distance + size_) % size_;
    const auto sent = static_cast<std::size_t>(to), received = static_cast<std::size_t>(from);
    exchange(Buffer(at(source, send_starts[sent]), send_counts[sent], input.type), to,
             Buffer(at(output, receive_starts[received]), receive_counts[received], output.type),
             from);
  }
}

// Deadlock is impossible: every rank does its exchanges in the order of (distance, chunk), and
// waits only for exchanges of at most that distance.
void MpiCollectives::exchange(const ConstBuffer& sent, int to, const Buffer& received, int from) {
  const Buffer source(const_cast<void*>(sent.data), sent.count, sent.type);  // only read
  for_chunks(std::max(sent.count, received.count), largest_count_, [&](std::int64_t offset, int) {
    const auto count_of = [&](const Buffer& buffer) {
      return static_cast<int>(std::clamp(buffer.count - offset, std::int64_t{0}, largest_count_));
    };
    const auto message = [&](const Buffer& buffer, int peer) {
      const int count = count_of(buffer);
      return MpiCalls::Message{count > 0 ? at(buffer, offset) : nullptr, count, peer};
    };
    calls_.exchange(message(source, to), message(received, from), mpi_type(sent.type));
  });
}

}  // namespace kolo
