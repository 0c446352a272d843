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
  // Transport on devices, for example "NCCL 2.28.9 (the host waits: never)"; empty before the job's
  // first collective there, or where there are none.
  std::string device_transport = {};
  // All-reduces on devices keep no thread of the host waiting, so a graph of the device can capture
  // them; known with the transport.
  bool hands_over_to_devices = false;
};

// Small messages between ranks beside their collectives, for the watch. Never blocks, also when the
// other side is stopped. Used by one thread at a time.
class StatusExchange {
 public:
  struct Message {
    int from = 0;
    std::vector<std::byte> bytes;
  };

  virtual ~StatusExchange() = default;
  // Sends a few kilobytes at most. Drops them while many messages to that rank have not been taken.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual std::optional<Message> receive() = 0;
};

// One way of talking to the other ranks. Blocks; a communicator makes one call at a time, in the
// same order on every rank, from its communication thread or its user's. Arguments have been
// checked on each rank (check_arguments()); a back end that can compare them across ranks does so
// and throws.
class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual const Topology& topology() const = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  // Does a collective: one that has buffers, or a barrier.
  virtual void execute(const CollectiveCall& call) = 0;

  // Compares a call with the other ranks', and throws on all of them where they differ.
  virtual void agree(const CallHeader& /*call*/) {}

  // Notes in call.order where the device's work stands, for a collective on its memory, on the
  // thread that asks for it. Error where there is no device.
  virtual void begin_on_device(CollectiveCall& call) const;
  // Waits until the device has come to such a call, where execute() would wait for it anyway, so
  // that the watch tells a late device from ranks that wait.
  virtual void await_input(const CollectiveCall& /*call*/) const {}
  // Tells whether execute() only hands such a call over to the device, so that the asking thread
  // may call it.
  [[nodiscard]] virtual bool hands_over(const CallHeader& /*call*/) const { return false; }
  // Tells, after execute() of such a call, whether the device goes on with it. If so, the functions
  // are called, later and on another thread, when it begins and when it is done.
  [[nodiscard]] virtual bool follow(const CollectiveCall& /*call*/,
                                    std::function<void()> /*started*/,
                                    std::function<void(bool failed)> /*finished*/) {
    return false;
  }

  // Allocates zero-filled memory, 64-byte aligned, of call.count bytes; collective. It may outlive
  // this back end. Kinds of allocation:
  // - allocate: one piece, in which an all-reduce needs no copies.
  // - allocate_shared: the pieces of all ranks of this node, by local rank.
  // - allocate_for_node: one piece for all ranks of this node, its content undefined.
  // The latter two give none, on all ranks, where ranks of a node can't share memory.
  [[nodiscard]] virtual std::vector<std::shared_ptr<std::byte>> allocate(
      const CallHeader& call) = 0;

  // Group of the ranks that pass the same colour, in the order of (key, rank), which may outlive
  // this one; nothing for a colour below 0. Collective.
  [[nodiscard]] virtual std::shared_ptr<Backend> split(int color, int key) = 0;

  // Messages beside the collectives, for the watch; null where there are none. Collective.
  [[nodiscard]] virtual std::unique_ptr<StatusExchange> status_exchange() { return nullptr; }

  // Messages between two ranks; null where the back end has none, or one rank.
  [[nodiscard]] virtual std::shared_ptr<TransferDesk> transfers() { return nullptr; }
  // Puts memory of the host where the call has a device's buffer, for a transfer, on the thread
  // that asks for it; notes in call.order where the device's work stands.
  [[nodiscard]] virtual std::shared_ptr<TransferStaging> stage(CollectiveCall& call) const;

  // Leaves the group, as the last handle is gone. Ranks that wait for this one, now or later,
  // should get CommunicationError that names it. Local; calls nothing of MPI's.
  virtual void leave() noexcept {}

  // Ends the ranks' processes, where ends_processes(), otherwise makes their pending and later
  // collectives fail for this reason.
  virtual void abort(int exit_code, std::string_view reason) noexcept = 0;
  [[nodiscard]] virtual bool ends_processes() const { return false; }
  // Tells whether collectives fail for such a reason, as far as it is known here.
  [[nodiscard]] virtual bool is_broken() const { return false; }
};

}  // namespace kolo
