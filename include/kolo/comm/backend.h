#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/comm/collective_call.h"
#include "kolo/comm/topology.h"

namespace kolo {

class TransferDesk;
class TransferStaging;

// Properties of a back end, for logs and `kolo doctor`.
struct Capabilities {
  std::string backend;            // "solo", "threads", "mpi"
  std::string transport;          // how the bytes travel, in words
  std::string thread_level = {};  // granted by MPI; empty elsewhere
  bool asynchronous = true;       // false: asynchronous collectives run before their call returns
  bool shared_memory = false;     // ranks of a node read each other's memory
  bool concurrent = false;        // collectives of different communicators may run at the same time
  // Those on devices' memory, for example "NCCL 2.28.9 (the host waits: never)"; empty: not known
  // before the job's first one, or there are none.
  std::string device_transport = {};
  // Known with it: whether all-reduces on devices are only given to them, and no thread of the host
  // waits; then they can be recorded for a graph of the device.
  bool hands_over_to_devices = false;
};

// Small messages between ranks beside their collectives, for the watch. Nothing here ever blocks,
// also when the other side is stopped. Used by one thread at a time.
class StatusExchange {
 public:
  struct Message {
    int from = 0;
    std::vector<std::byte> bytes;
  };

  virtual ~StatusExchange() = default;
  // A few kilobytes at most. Dropped when many messages to that rank have not been taken yet.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual std::optional<Message> receive() = 0;
};

// One way of talking to the other ranks. All of it blocks; a communicator calls it one at a time,
// in the same order on every rank, from its communication thread or its user's thread. Arguments
// have been checked on each rank (check_arguments()); a back end that can compare them across ranks
// (first_difference()) does so and throws.
class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual const Topology& topology() const = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  // Does a collective: one that has buffers, or a barrier.
  virtual void execute(const CollectiveCall& call) = 0;

  // Compares a call with the other ranks', where they share memory, and throws on all where they
  // differ.
  virtual void agree(const CallHeader& /*call*/) {}

  // Notes in call.order where the device's work stands, for a collective on its memory; called by the
  // thread that asks for it. Error where there is no device.
  virtual void begin_on_device(CollectiveCall& call) const;
  // Waits until the device has come to such a call, where execute() would wait for it anyway: the
  // call counts as begun only then, which tells a late device from ranks that wait for it.
  virtual void await_input(const CollectiveCall& /*call*/) const {}
  // Whether execute() hands such a call over to the device without waiting, so that the thread that
  // asks for it may call it.
  [[nodiscard]] virtual bool hands_over(const CallHeader& /*call*/) const { return false; }
  // After execute() of one on a device's memory: whether the device goes on with it. If so, the
  // functions are called, later and on another thread, when it begins and when it is done.
  [[nodiscard]] virtual bool follow(const CollectiveCall& /*call*/,
                                    std::function<void()> /*started*/,
                                    std::function<void(bool failed)> /*finished*/) {
    return false;
  }

  // Zero-filled memory, 64-byte aligned, of call.count bytes; collective, and it may outlive this
  // back end. As the kind of allocation in the call wants it:
  // - allocate: one piece, in which an all-reduce needs no copies.
  // - allocate_shared: the pieces of all ranks of this node, by local rank; none where they can't
  //   share any (on all ranks then).
  // - allocate_for_node: one piece for all ranks of this node, its content undefined; none where
  //   they can't share any (on all ranks then).
  [[nodiscard]] virtual std::vector<std::shared_ptr<std::byte>> allocate(
      const CallHeader& call) = 0;

  // The group of the ranks that pass the same colour, in the order of (key, rank), which may
  // outlive this one; nothing for a colour below 0. Collective.
  [[nodiscard]] virtual std::shared_ptr<Backend> split(int color, int key) = 0;

  // Messages beside the collectives, for the watch; null where there are none. Collective.
  [[nodiscard]] virtual std::unique_ptr<StatusExchange> status_exchange() { return nullptr; }

  // Messages between two ranks; null where the back end has none, or one rank.
  [[nodiscard]] virtual std::shared_ptr<TransferDesk> transfers() { return nullptr; }
  // Of a transfer on a device's memory: puts memory of the host in the place of its buffer, for the
  // thread that asks; notes in call.order where the device's work stands.
  [[nodiscard]] virtual std::shared_ptr<TransferStaging> stage(CollectiveCall& call) const;

  // This rank calls nothing here any more: its last handle is gone. Ranks that wait for it, now or
  // later, should get CommunicationError that names it. Local, and not a word to MPI.
  virtual void leave() noexcept {}

  // Makes every rank's pending and later collectives fail, for this reason, or ends their
  // processes.
  virtual void abort(int exit_code, std::string_view reason) noexcept = 0;
  // Which of the two.
  [[nodiscard]] virtual bool ends_processes() const { return false; }
  // Whether the first has happened, as far as it is known here.
  [[nodiscard]] virtual bool is_broken() const { return false; }
};

}  // namespace kolo
