#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kolo/comm/backend.h"
#include "kolo/comm/data_type.h"
#include "kolo/comm/topology.h"
#include "kolo/comm/work.h"

namespace kolo {

class Executor;

// A group of ranks that do collectives together. A cheap handle: copies mean the same group.
//
// Every rank must call the same collectives in the same order with the same counts, types,
// operations and roots; between ranks that share memory a mismatch is an Error on all of them that
// names both values. Different threads may use one communicator if they agree on that order
// themselves. An asynchronous collective runs on the communication thread; its buffers must live
// untouched until its Work is done. Counts may exceed 2^31.
class Communicator {
 public:
  // The one rank of a program without MPI: collectives are copies or nothing.
  [[nodiscard]] static Communicator solo();

  explicit Communicator(std::shared_ptr<Backend> backend);
  Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Executor> executor);

  [[nodiscard]] int rank() const { return topology().rank; }
  [[nodiscard]] int size() const { return topology().size; }
  [[nodiscard]] const Topology& topology() const;
  [[nodiscard]] Capabilities capabilities() const;

  // buffer becomes the sum, average, ... of all ranks' buffers; bit-identical on all ranks.
  void all_reduce(Buffer buffer, ReduceOp op = ReduceOp::sum) const;
  // `owner`, when given, is kept until the collective is done: it may own the buffer.
  [[nodiscard]] Work all_reduce_async(Buffer buffer, ReduceOp op = ReduceOp::sum,
                                      std::shared_ptr<const void> owner = nullptr) const;

  // buffer becomes root's.
  void broadcast(Buffer buffer, int root = 0) const;
  [[nodiscard]] Work broadcast_async(Buffer buffer, int root = 0) const;

  // output (size() x input.count) becomes the ranks' inputs one behind another.
  void all_gather(ConstBuffer input, Buffer output) const;
  [[nodiscard]] Work all_gather_async(ConstBuffer input, Buffer output) const;

  // Rank r's output becomes the reduction of everybody's r-th part of input (size() x
  // output.count).
  void reduce_scatter(ConstBuffer input, Buffer output, ReduceOp op = ReduceOp::sum) const;
  [[nodiscard]] Work reduce_scatter_async(ConstBuffer input, Buffer output,
                                          ReduceOp op = ReduceOp::sum) const;

  // Returns when every rank has called it.
  void barrier() const;
  [[nodiscard]] Work barrier_async() const;

  // Zero-filled memory, 64-byte aligned, in which an all-reduce is done in place between ranks that
  // share a node, without a copy. Collective; the same size everywhere. For buffers that live as
  // long as a training: the memory behind it is given back only when the communicator and all such
  // memory are gone.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) const;

  // Gives up on behalf of all ranks: under MPI every process of the job ends with this status (does
  // not return); ranks that are threads get CommunicationError from their collectives.
  void abort(int exit_code = 1) const noexcept;

 private:
  struct Group;
  std::shared_ptr<Group> group_;
};

// A single value reduced over all ranks; a convenience for metrics and agreements.
template <typename T>
[[nodiscard]] T all_reduce_value(const Communicator& communicator, T value,
                                 ReduceOp op = ReduceOp::sum) {
  communicator.all_reduce(std::span(&value, 1), op);
  return value;
}

}  // namespace kolo
