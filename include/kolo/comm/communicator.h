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
// whose last handle is gone has left, without any communication: others that wait for it get
// CommunicationError, or the watch ends the job. MPI is finalized with the last handle if kolo has
// initialized it.
//
// Every rank must call the same collectives in the same order with the same counts, types,
// operations and roots; in the host's memory a mismatch is an Error on all ranks that names both
// calls. Threads may share a communicator if they agree on that order themselves. Asynchronous
// collectives run on the communication thread; their buffers must live untouched until the Work is
// done. Counts may exceed 2^31.
class Communicator {
 public:
  // One rank of a program without MPI: collectives are copies or nothing.
  [[nodiscard]] static Communicator solo(const DeviceOptions& devices = {});

  explicit Communicator(std::shared_ptr<Backend> backend);
  Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Executor> executor);

  [[nodiscard]] int rank() const { return topology().rank; }
  [[nodiscard]] int size() const { return topology().size; }
  [[nodiscard]] const Topology& topology() const;
  [[nodiscard]] Capabilities capabilities() const;
  // 0 for all ranks of the job; a set of ranks made by split() or subset() has a number of its own.
  [[nodiscard]] std::uint32_t group() const;

  // buffer becomes the reduction of all ranks' buffers, the same bits on all of them. 16-bit types
  // are rounded once, whatever the transport; averages don't overflow (ReduceOp).
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

  // Gathers counts[r] elements from rank r; every rank passes the same counts. The input, also of
  // all_gather(), may be this rank's part of the output.
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

  // The first send_counts[0] elements of input go to rank 0, and so on; output becomes the ranks'
  // parcels for this one, in their order, of receive_counts[r] elements from rank r. Input and
  // output must not overlap.
  void all_to_all(ConstBuffer input, std::span<const std::int64_t> send_counts, Buffer output,
                  std::span<const std::int64_t> receive_counts, CallOptions options = {}) const;
  [[nodiscard]] Work all_to_all_async(ConstBuffer input, std::span<const std::int64_t> send_counts,
                                      Buffer output, std::span<const std::int64_t> receive_counts,
                                      CallOptions options = {}) const;

  // Returns when every rank has called it.
  void barrier(CallOptions options = {}) const;
  [[nodiscard]] Work barrier_async(CallOptions options = {}) const;

  // Messages between two ranks, outside of the order of the collectives. The n-th send to a rank
  // with a tag (0 or more) is received by its n-th receive from this rank with that tag, which must
  // have the same count and type, otherwise both get an Error that names both; CommunicationError
  // where the other rank has left. A send may wait for the receive: two ranks that both send first
  // need send_async() or exchange(). A device's buffer goes through pinned memory of the host.
  //
  // Between nodes without MPI's thread level `multiple` they go on only while somebody waits for
  // one, and ranks must keep one order. End them before a rank joins, which asks for none.
  void send(ConstBuffer buffer, int peer, int tag = 0, CallOptions options = {}) const;
  [[nodiscard]] Work send_async(ConstBuffer buffer, int peer, int tag = 0,
                                CallOptions options = {}) const;
  void receive(Buffer buffer, int peer, int tag = 0, CallOptions options = {}) const;
  [[nodiscard]] Work receive_async(Buffer buffer, int peer, int tag = 0,
                                   CallOptions options = {}) const;

  // Does several messages at once, in whatever order the ranks list them. Done when all are; throws
  // the first Error of any then. A rank may send to itself what it receives in the same call, in
  // the host's memory, so that a ring works on one rank too.
  void exchange(std::span<const Transfer> transfers, CallOptions options = {}) const;
  [[nodiscard]] Work exchange_async(std::span<const Transfer> transfers,
                                    CallOptions options = {}) const;

  // Runs a function on the communication thread, in turn with the asynchronous collectives: several
  // collectives with work between them. It gets this communicator, which it must not own, and whose
  // collectives run at once inside it.
  [[nodiscard]] Work enqueue(std::function<void(const Communicator&)> task,
                             CallOptions options = {}) const;

  // Sets of ranks; collective. Ranks in a set get a communicator of it, the others nothing. Sets
  // may outlive the communicator that they were made from; where capabilities().concurrent, their
  // collectives run at the same time. Over several nodes a set takes a few communicators of MPI's,
  // which the next set of the same ranks uses again. Make sets of different communicators in one
  // order on all ranks that are in both.
  //
  // Set of the ranks that pass the same colour, in the order of (key, rank); colour < 0: in no set.
  // `name`: what timelines call it, for example "node".
  [[nodiscard]] std::optional<Communicator> split(int color, int key = 0,
                                                  const std::string& name = {}) const;
  // Set of the ranks listed, in that order; everybody passes the same list.
  [[nodiscard]] std::optional<Communicator> subset(std::span<const int> ranks) const;

  // A communicator of the same ranks in an order of its own: its calls may come before a call of
  // this one on some ranks and after it on others. On one rank, and where not
  // capabilities().concurrent, it is this communicator itself.
  //
  // Collective, and costs what a set does; the next call gives it out again when all ranks have let
  // go of it. It shares this one's listeners, and join() of this one joins it too. Error while
  // ranks have joined. `name`: as for split(), where it is made anew.
  [[nodiscard]] Communicator with_own_order(const std::string& name = {}) const;

  // Zero-filled memory, 64-byte aligned, out of which ranks of a node reduce without a copy.
  // Collective; the same size everywhere. It may outlive the communicator, and MPI; its room is
  // given back when all ranks of the node have let go of it.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) const;

  // Such memory of all ranks of this node, by local rank; nothing where they can't share memory.
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate_shared(std::size_t bytes) const;

  // One piece of memory for all ranks of this node, 64-byte aligned, its content undefined; nothing
  // where they can't share memory. A page takes room near the rank that first writes it.
  [[nodiscard]] std::shared_ptr<std::byte> allocate_for_node(std::size_t bytes) const;

  // A handle over the same ranks that compares calls on devices, too, and that can join(). Shares
  // this one's order, group number and listeners; sets made from it are checked, too. Local, but
  // every rank must use a checked handle for the same calls; keep one, made once. Costs an
  // all-gather of 48 bytes a collective: on one node a microsecond.
  [[nodiscard]] Communicator checked() const;
  [[nodiscard]] bool is_checked() const;

  // Takes part, for a rank whose data is used up before the others', in whatever they do until
  // every rank has joined, after this rank's pending collectives. Returns, on all ranks, the last
  // one to join (of several the highest), from which to broadcast parameters and the optimizer's
  // state. Afterwards all ranks are active again.
  //
  // Takes part in sets of ranks made from this communicator, too, as long as they have a handle;
  // Error where there are any and not capabilities().concurrent. All ranks should let go of a set
  // either before or after the join: a joined rank without shared memory waits for one that has
  // let go until the watch ends the job.
  //
  // Active ranks get reductions of their own values only, averages over themselves, and zeros where
  // an all-gather or an all-to-all takes values of a joined rank, which is in no set that they make
  // meanwhile. A broadcast from a joined rank is an Error on all ranks. Errors of the active ranks'
  // calls are thrown here too (those in a set when the join ends), and this rank is active then.
  // Error for a communicator that is not checked().
  int join() const;

  // Number of ranks that contributed to the last collective: size() except while ranks have joined.
  [[nodiscard]] int active_ranks() const;

  // Number of times that joined ranks have become active again, the same on all ranks. They have
  // missed steps then, so state that ranks keep alike from step to step is no longer alike.
  [[nodiscard]] std::uint64_t joins() const;

  // Throws an Error of these words where a rank had joined when the last collective was done.
  // Local: all active ranks call it after the same collective.
  void require_all_ranks(const std::string& words) const;

  // Lets a listener hear of every collective from now on, here, in communicators of
  // with_own_order(), and in sets of ranks made later.
  void add_listener(std::shared_ptr<CollectiveListener> listener) const;
  void remove_listener(const std::shared_ptr<CollectiveListener>& listener) const;

  // Gives up on behalf of all ranks: processes of the job end with this status (does not return);
  // threads, and ranks of a session (kolo/comm/session.h), get CommunicationError.
  void abort(int exit_code = 1) const noexcept;
  // Keeps the watch from reporting, for a few seconds, that this rank leaves: it will call abort()
  // and say why itself. Local.
  void announce_abort() const noexcept;

  struct Group;

 private:
  explicit Communicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  [[nodiscard]] std::optional<Communicator> make_set(int color, int key,
                                                     const std::string& name) const;
  void serve_sets() const;

  std::shared_ptr<Group> group_;
};

// Reduces a single value over all ranks.
template <typename T>
[[nodiscard]] T all_reduce_value(const Communicator& communicator, T value,
                                 ReduceOp op = ReduceOp::sum) {
  communicator.all_reduce(std::span(&value, 1), op);
  return value;
}

}  // namespace kolo
