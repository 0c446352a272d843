#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/comm/backend.h"
#include "kolo/comm/collective_call.h"
#include "kolo/comm/data_type.h"
#include "kolo/comm/device.h"
#include "kolo/comm/topology.h"
#include "kolo/comm/transfer.h"
#include "kolo/comm/work.h"

namespace kolo {

class Executor;

// A group of ranks that do collectives together. A cheap handle: copies mean the same group. A rank
// whose last handle is gone has left: others that wait for it get CommunicationError, or the watch
// ends the job. Nothing collective happens then, but that MPI is finalized with the last handle if
// kolo has initialized it.
//
// Every rank must call the same collectives in the same order with the same counts, types,
// operations and roots; of calls in the host's memory a mismatch is an Error on all ranks that
// names both. Different threads may use one communicator if they agree on that order themselves. An
// asynchronous collective runs on the communication thread; its buffers must live untouched until
// its Work is done. Counts may exceed 2^31.
class Communicator {
 public:
  // The one rank of a program without MPI: collectives are copies or nothing.
  [[nodiscard]] static Communicator solo(const DeviceOptions& devices = {});

  explicit Communicator(std::shared_ptr<Backend> backend);
  Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Executor> executor);

  [[nodiscard]] int rank() const { return topology().rank; }
  [[nodiscard]] int size() const { return topology().size; }
  [[nodiscard]] const Topology& topology() const;
  [[nodiscard]] Capabilities capabilities() const;
  // 0 for all ranks of the job; a set of ranks made by split() or subset() has a number of its own.
  [[nodiscard]] std::uint32_t group() const;

  // buffer becomes the sum, average, ... of all ranks' buffers; bit-identical on all ranks. Of
  // 16-bit types it is rounded once, whatever the transport; averages don't overflow (ReduceOp).
  void all_reduce(Buffer buffer, ReduceOp op = ReduceOp::sum, CallOptions options = {}) const;
  [[nodiscard]] Work all_reduce_async(Buffer buffer, ReduceOp op = ReduceOp::sum,
                                      CallOptions options = {}) const;

  // buffer becomes root's.
  void broadcast(Buffer buffer, int root = 0, CallOptions options = {}) const;
  [[nodiscard]] Work broadcast_async(Buffer buffer, int root = 0, CallOptions options = {}) const;

  // output (size() x input.count) becomes the ranks' inputs one after another.
  void all_gather(ConstBuffer input, Buffer output, CallOptions options = {}) const;
  [[nodiscard]] Work all_gather_async(ConstBuffer input, Buffer output,
                                      CallOptions options = {}) const;

  // The same with counts[r] elements from rank r; every rank passes the same counts. The input of
  // this and of all_gather() may be this rank's part of the output.
  void all_gather_uneven(ConstBuffer input, Buffer output, std::span<const std::int64_t> counts,
                         CallOptions options = {}) const;
  [[nodiscard]] Work all_gather_uneven_async(ConstBuffer input, Buffer output,
                                             std::span<const std::int64_t> counts,
                                             CallOptions options = {}) const;

  // Rank r's output becomes the reduction of everybody's r-th part of input (size() x
  // output.count).
  void reduce_scatter(ConstBuffer input, Buffer output, ReduceOp op = ReduceOp::sum,
                      CallOptions options = {}) const;
  [[nodiscard]] Work reduce_scatter_async(ConstBuffer input, Buffer output,
                                          ReduceOp op = ReduceOp::sum,
                                          CallOptions options = {}) const;

  // The first send_counts[0] elements of input go to rank 0, and so on; output becomes what was
  // sent here, in the order of ranks. receive_counts[r] must be what rank r sends here. Input and
  // output must not overlap.
  void all_to_all(ConstBuffer input, std::span<const std::int64_t> send_counts, Buffer output,
                  std::span<const std::int64_t> receive_counts, CallOptions options = {}) const;
  [[nodiscard]] Work all_to_all_async(ConstBuffer input, std::span<const std::int64_t> send_counts,
                                      Buffer output, std::span<const std::int64_t> receive_counts,
                                      CallOptions options = {}) const;

  // Returns when every rank has called it.
  void barrier(CallOptions options = {}) const;
  [[nodiscard]] Work barrier_async(CallOptions options = {}) const;

  // Messages between two ranks. The n-th send to a rank with a tag (0 or more) is received by the
  // n-th receive from this rank with that tag there, which must have the same count and type:
  // otherwise both get an Error that names both. A send may not be done before the other rank has
  // asked to receive it: two ranks that both send first need send_async() or exchange(). A buffer
  // on a device goes through pinned memory of the host.
  //
  // They stand outside of the order of the collectives and go on while collectives run. (Between
  // nodes without MPI's thread level `multiple` only while somebody waits for one: there ranks must
  // keep one order.) End them before a rank joins: it asks for none, so who waits for one with it
  // does so until the watch ends that. CommunicationError where the other rank has left.
  void send(ConstBuffer buffer, int peer, int tag = 0, CallOptions options = {}) const;
  [[nodiscard]] Work send_async(ConstBuffer buffer, int peer, int tag = 0,
                                CallOptions options = {}) const;
  void receive(Buffer buffer, int peer, int tag = 0, CallOptions options = {}) const;
  [[nodiscard]] Work receive_async(Buffer buffer, int peer, int tag = 0,
                                   CallOptions options = {}) const;

  // Several at once, in whatever order the ranks list them: all receives are asked for, then all
  // sends. Done when all are; throws the first Error of any then.
  void exchange(std::span<const Transfer> transfers, CallOptions options = {}) const;
  [[nodiscard]] Work exchange_async(std::span<const Transfer> transfers,
                                    CallOptions options = {}) const;

  // Runs a function on the communication thread, in turn with the asynchronous collectives, for
  // what takes several collectives with work between them. It is given this communicator, which it
  // must not own, and whose collectives run at once then, before those asked for later.
  [[nodiscard]] Work enqueue(std::function<void(const Communicator&)> task,
                             CallOptions options = {}) const;

  // Sets of ranks. Every rank of this communicator calls these, in the same order; those in a set
  // get a communicator of it, the others nothing. Sets are independent, and may outlive the
  // communicator they were made from; where capabilities().concurrent, their collectives run at the
  // same time. Over several nodes a set takes a few communicators of MPI's, which the next set of
  // the same ranks has when all have let go of it. Make sets of different communicators in one
  // order on all ranks that are in both.
  //
  // The ranks that pass the same colour, in the order of (key, rank); colour < 0: in no set.
  [[nodiscard]] std::optional<Communicator> split(int color, int key = 0) const;
  // The ranks listed, in that order; everybody passes the same list.
  [[nodiscard]] std::optional<Communicator> subset(std::span<const int> ranks) const;

  // A communicator of the same ranks in an order of its own: what is called on it may come before a
  // call of this one on some ranks and after it on others. It is this communicator itself on one
  // rank, and where not capabilities().concurrent: then calls of both are in one order.
  //
  // Collective, and costs what a set does; when its last handle has gone on all ranks, the next
  // call gives it out again. It has this one's listeners, also later ones, and join() of this one
  // joins it too. Error while ranks have joined.
  [[nodiscard]] Communicator with_own_order() const;

  // Zero-filled memory, 64-byte aligned, in which an all-reduce is done in place between ranks that
  // share a node, without a copy. Collective; the same size everywhere. It may outlive the
  // communicator, and MPI; its room is given back when all ranks of the node have let go of it.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) const;

  // The same, with the parts of all ranks of this node, by local rank; nothing where they can't
  // share memory.
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate_shared(std::size_t bytes) const;

  // One piece of memory for all ranks of this node, 64-byte aligned, its content undefined; nothing
  // where they can't share memory. A page of it takes room where the rank is that first writes it,
  // and none before.
  [[nodiscard]] std::shared_ptr<std::byte> allocate_for_node(std::size_t bytes) const;

  // A handle over the same ranks in which calls are compared on devices too, with NCCL as well, and
  // which join() needs. Shares this one's order, group number and listeners; sets of ranks made
  // from it are checked too, with joins of their own.
  //
  // Local, but every rank must use a checked handle for the same calls; keep one, made once. Costs
  // an all-gather of 48 bytes a collective: on one node a microsecond.
  [[nodiscard]] Communicator checked() const;
  [[nodiscard]] bool is_checked() const;

  // For a rank whose data is used up before the others': takes part in whatever they do, until
  // every rank has joined; returns the last one to join on all of them (the highest rank, where
  // several were), from which to broadcast parameters and the optimizer's state. Blocks;
  // asynchronous collectives asked for before are done first. Afterwards all ranks are active
  // again.
  //
  // It takes part in the sets of ranks made from this communicator, too, as long as they have a
  // handle. That takes capabilities().concurrent; an Error where it is false and there are any. Who
  // lets go of a set before it joins should do so where all ranks do: a joined rank without shared
  // memory waits for it there, until the watch ends the job.
  //
  // The active ranks get reductions of their own values only, an average divided by how many they
  // are, and zeros where an all-gather or an all-to-all takes values of a joined rank. In a split()
  // or subset() that they call meanwhile a joined rank is in no set. A broadcast from a joined rank
  // is an Error on all ranks.
  //
  // An Error that the active ranks' calls lead to is thrown here too, and this rank is active then
  // (one of a set's calls when the join ends). Error for a communicator that is not checked().
  int join() const;

  // How many ranks contributed to the last collective that is done: size() except while ranks have
  // joined.
  [[nodiscard]] int active_ranks() const;

  // How often joined ranks have become active again, the same on all ranks: they have missed steps
  // then, and state that the ranks keep alike from step to step is no longer alike.
  [[nodiscard]] std::uint64_t joins() const;

  // For what can't be done while a rank has joined: an Error of these words where one had when the
  // last collective was done. Local: all active ranks call it after the same collective, and those
  // that have joined go on taking part.
  void require_all_ranks(const std::string& words) const;

  // A listener hears of every collective from now on, here, in communicators of with_own_order(),
  // and in sets of ranks made later.
  void add_listener(std::shared_ptr<CollectiveListener> listener) const;
  void remove_listener(const std::shared_ptr<CollectiveListener>& listener) const;

  // Gives up on behalf of all ranks: under MPI every process of the job ends with this status (does
  // not return); ranks that are threads, and those of a session (kolo/comm/session.h), get
  // CommunicationError from their collectives.
  void abort(int exit_code = 1) const noexcept;
  // This rank will call abort() within a few seconds and says why itself: until then the watch does
  // not report that it leaves, which an exception on its way looks like. Local.
  void announce_abort() const noexcept;

  struct Group;

 private:
  explicit Communicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  [[nodiscard]] std::optional<Communicator> make_set(int color, int key) const;
  void serve_sets() const;

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
