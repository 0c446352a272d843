#include "comm/mpi/mpi_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "comm/shared_memory/reduce_kernels.h"

namespace kolo {

namespace {

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float16:
    case DataType::bfloat16:
      return MPI_UINT16_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::int16:
      return MPI_INT16_T;
    case DataType::int8:
      return MPI_INT8_T;
    case DataType::uint8:
    case DataType::boolean:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

template <DataType type, ReduceOp op>
void own_operation(void* input, void* in_out, int* length, MPI_Datatype*) {
  auto* const result = static_cast<std::byte*>(in_out);
  const std::array<const std::byte*, 2> sources = {static_cast<std::byte*>(input), result};
  reduce(type, op, sources, std::span(&result, 1), *length, 1);
}

template <DataType type>
constexpr std::array<MPI_User_function*, 4> operations_of() {
  return {own_operation<type, ReduceOp::sum>, own_operation<type, ReduceOp::min>,
          own_operation<type, ReduceOp::max>, own_operation<type, ReduceOp::product>};
}

// The type's row in own_operations_.
std::size_t row_of(DataType type) {
  return type == DataType::uint8 ? 4 : static_cast<std::size_t>(type);
}

// Where operations_of() has an operation.
std::size_t place_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return 1;
    case ReduceOp::max:
      return 2;
    case ReduceOp::product:
      return 3;
    default:
      return 0;
  }
}

std::byte* at(const Buffer& buffer, std::int64_t element) {
  return static_cast<std::byte*>(buffer.data) +
         static_cast<std::size_t>(element) * size_of(buffer.type);
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

MpiCollectives::MpiCollectives(MPI_Comm communicator, std::int64_t largest_count)
    : communicator_(communicator), largest_count_(largest_count) {
  constexpr std::array functions = {
      operations_of<DataType::float64>(), operations_of<DataType::float32>(),
      operations_of<DataType::float16>(), operations_of<DataType::bfloat16>(),
      operations_of<DataType::uint8>()};
  for (std::size_t type = 0; type < functions.size(); ++type) {
    for (std::size_t op = 0; op < functions[type].size(); ++op) {
      check_mpi(MPI_Op_create(functions[type][op], 1, &own_operations_[type][op]), "MPI_Op_create");
    }
  }
}

MpiCollectives::~MpiCollectives() {
  int is_finalized = 0;
  if (MPI_Finalized(&is_finalized) != MPI_SUCCESS || is_finalized) return;
  for (auto& row : own_operations_) {
    for (auto& operation : row) MPI_Op_free(&operation);
  }
}

MPI_Op MpiCollectives::operation(DataType type, ReduceOp op) const {
  const bool is_half = type == DataType::float16 || type == DataType::bfloat16;
  const bool compares = op == ReduceOp::min || op == ReduceOp::max;
  const bool may_lose_nan = type <= DataType::float32 && compares;
  const bool may_have_a_sign = type == DataType::uint8 && compares;  // MPICH 4.0
  if (is_half || may_lose_nan || may_have_a_sign)
    return own_operations_[row_of(type)][place_of(op)];
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return type == DataType::boolean ? MPI_MAX : MPI_SUM;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::product:
      return type == DataType::boolean ? MPI_MIN : MPI_PROD;
  }
  return MPI_OP_NULL;
}

void MpiCollectives::all_reduce(const Buffer& buffer, ReduceOp op, int divisor) const {
  for_chunks(buffer.count, largest_count_, [&](std::int64_t offset, int count) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, at(buffer, offset), count, mpi_type(buffer.type),
                            operation(buffer.type, op), communicator_),
              "MPI_Allreduce");
  });
  if (op == ReduceOp::average && buffer.count > 0)
    divide(buffer.type, at(buffer, 0), buffer.count, divisor);
}

void MpiCollectives::broadcast(const Buffer& buffer, int root) const {
  for_chunks(buffer.count, largest_count_, [&](std::int64_t offset, int count) {
    check_mpi(MPI_Bcast(at(buffer, offset), count, mpi_type(buffer.type), root, communicator_),
              "MPI_Bcast");
  });
}

void MpiCollectives::all_gather(const ConstBuffer& input, const Buffer& output) const {
  int size = 0, rank = 0;
  check_mpi(MPI_Comm_size(communicator_, &size), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
  if (output.count <= largest_count_) {
    const int count = static_cast<int>(input.count);
    if (count == 0) return barrier();
    // MPI allows no overlap of the two buffers; a part that already lies in its place is said so.
    const bool in_place = input.data == at(output, rank * input.count);
    check_mpi(MPI_Allgather(in_place ? MPI_IN_PLACE : input.data, count, mpi_type(input.type),
                            output.data, count, mpi_type(input.type), communicator_),
              "MPI_Allgather");
    return;
  }
  // Beyond what one call takes, every rank's part is a broadcast, in chunks.
  const Buffer mine(at(output, rank * input.count), input.count, input.type);
  if (mine.data != input.data)
    std::copy_n(static_cast<const std::byte*>(input.data), mine.bytes(), at(mine, 0));
  for (int owner = 0; owner < size; ++owner) {
    broadcast(Buffer(at(output, owner * input.count), input.count, input.type), owner);
  }
}

void MpiCollectives::all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                                       std::span<const std::int64_t> counts) const {
  if (output.count == 0) return barrier();
  int rank = 0;
  check_mpi(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
  std::vector<std::int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::int64_t{0});
  const auto part = [&](int owner) {
    const auto index = static_cast<std::size_t>(owner);
    return Buffer(at(output, starts[index]), counts[index], output.type);
  };
  const Buffer mine = part(rank);
  if (mine.count > 0 && mine.data != input.data) std::memcpy(mine.data, input.data, mine.bytes());
  if (output.count > largest_count_) {
    for (int owner = 0; owner < static_cast<int>(counts.size()); ++owner)
      broadcast(part(owner), owner);
    return;
  }
  const std::vector<int> int_counts(counts.begin(), counts.end());
  const std::vector<int> int_starts(starts.begin(), starts.end());
  check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, output.data, int_counts.data(),
                           int_starts.data(), mpi_type(output.type), communicator_),
            "MPI_Allgatherv");
}

void MpiCollectives::reduce_scatter(const ConstBuffer& input, const Buffer& output,
                                    ReduceOp op) const {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator_, &size), "MPI_Comm_size");
  const Buffer whole(const_cast<void*>(input.data), input.count, input.type);  // only read
  if (input.count <= largest_count_) {
    check_mpi(
        MPI_Reduce_scatter_block(input.data, output.data, static_cast<int>(output.count),
                                 mpi_type(input.type), operation(input.type, op), communicator_),
        "MPI_Reduce_scatter_block");
  } else {
    for (int owner = 0; owner < size; ++owner) {
      for_chunks(output.count, largest_count_, [&](std::int64_t offset, int count) {
        check_mpi(MPI_Reduce(at(whole, owner * output.count + offset), at(output, offset), count,
                             mpi_type(input.type), operation(input.type, op), owner, communicator_),
                  "MPI_Reduce");
      });
    }
  }
  if (op == ReduceOp::average && output.count > 0)
    divide(output.type, at(output, 0), output.count, size);
}

void MpiCollectives::all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                                const Buffer& output,
                                std::span<const std::int64_t> receive_counts) const {
  int rank = 0;
  check_mpi(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
  const int size = static_cast<int>(send_counts.size());
  std::vector<std::int64_t> send_starts(send_counts.size()), receive_starts(send_counts.size());
  std::exclusive_scan(send_counts.begin(), send_counts.end(), send_starts.begin(), std::int64_t{0});
  std::exclusive_scan(receive_counts.begin(), receive_counts.end(), receive_starts.begin(),
                      std::int64_t{0});
  const Buffer source(const_cast<void*>(input.data), input.count, input.type);  // only read
  for (int distance = 0; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank - distance + size) % size;
    const auto sent = static_cast<std::size_t>(to), received = static_cast<std::size_t>(from);
    exchange(Buffer(at(source, send_starts[sent]), send_counts[sent], input.type), to,
             Buffer(at(output, receive_starts[received]), receive_counts[received], output.type),
             from);
  }
}

// Every rank does its exchanges in the order of (distance, chunk), and one waits only for those
// that are at most as far, so somebody always goes on.
void MpiCollectives::exchange(const ConstBuffer& sent, int to, const Buffer& received,
                              int from) const {
  constexpr int tag = 0;
  const Buffer source(const_cast<void*>(sent.data), sent.count, sent.type);  // only read
  const MPI_Datatype type = mpi_type(sent.type);
  for_chunks(std::max(sent.count, received.count), largest_count_, [&](std::int64_t offset, int) {
    const auto count_of = [&](const Buffer& buffer) {
      return static_cast<int>(std::clamp(buffer.count - offset, std::int64_t{0}, largest_count_));
    };
    const int sends = count_of(source), receives = count_of(received);
    check_mpi(
        MPI_Sendrecv(sends > 0 ? at(source, offset) : nullptr, sends, type,
                     sends > 0 ? to : MPI_PROC_NULL, tag,
                     receives > 0 ? at(received, offset) : nullptr, receives, type,
                     receives > 0 ? from : MPI_PROC_NULL, tag, communicator_, MPI_STATUS_IGNORE),
        "MPI_Sendrecv");
  });
}

void MpiCollectives::barrier() const {
  check_mpi(MPI_Barrier(communicator_), "MPI_Barrier");
}

}  // namespace kolo
