#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kolo/comm/data_type.h"
#include "kolo/comm/device.h"
#include "kolo/comm/topology.h"

namespace kolo {

enum class Collective : std::uint8_t {
  none,
  all_reduce,
  broadcast,
  all_gather,
  all_gather_uneven,
  reduce_scatter,
  all_to_all,
  barrier,
  allocate,           // Communicator::allocate()
  allocate_shared,    // ... allocate_shared()
  allocate_for_node,  // ... allocate_for_node()
  split,
  task,  // a function given to Communicator::enqueue
  join,  // a rank without data takes part in the others' collectives; only on that rank
  // Between two ranks, outside of the order of the collectives.
  send,
  receive,
};

[[nodiscard]] std::string_view name_of(Collective collective);

// Relation of a collective's buffers. `count` is CallHeader::count.
enum class BufferShape : std::uint8_t {
  none,              // it has none
  in_place,          // one of `count` elements, read and written
  gathered,          // `count` in, as many of every rank out
  gathered_uneven,   // `count` out, of every rank as many as the counts say, the same everywhere
  scattered,         // `count` in, of which each rank gets an equal part
  exchanged_uneven,  // `count` in; counts of each rank's own say who sends how many to whom
  sent,              // `count` in, to the peer
  received,          // `count` out, of the peer
};

// Properties of a collective, by which it is described, compared and checked.
struct CollectiveTraits {
  std::string_view name;
  BufferShape buffers = BufferShape::none;
  bool reduces = false;   // has a CallHeader::op
  bool has_root = false;  // in CallHeader::peer
  bool has_peer = false;  // there too: it is between two ranks, and has a tag
};

[[nodiscard]] const CollectiveTraits& traits_of(Collective collective);
// Tells whether a call is between two ranks, outside of the collectives' order and numbers.
[[nodiscard]] inline bool is_transfer(Collective collective) {
  return traits_of(collective).has_peer;
}

// A collective as a rank has asked for it, for back ends, comparisons between ranks, the watch's
// records, timelines and errors. It is copied and sent as bytes.
struct CallHeader {
  Collective collective = Collective::none;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  MemoryKind memory = MemoryKind::host;  // of its buffers
  std::int32_t peer = -1;                // the root of a broadcast, who sends or receives; -1: none
  std::int32_t tag = 0;                  // of a message between two ranks
  std::uint32_t in_task = 0;      // its number among the collectives of a task, from 1; 0: in none
  std::int64_t count = 0;         // elements, see BufferShape; bytes of an allocation
  std::uint64_t fingerprint = 0;  // of counts by rank, where ranks compare them
  std::uint64_t number = 0;  // in the communicator's sequence, from 1, the same on all ranks that
                             // keep one order; inside a task, the task's; of this rank's transfers
  std::uint32_t group = 0;   // 0 for the job, otherwise Communicator::group() of a set of ranks
  std::int32_t first_rank = 0;  // of the group, in the job; with `group` it tells groups apart

  // "all-reduce (sum) of 4 float32", "broadcast (from root 0) of 1 int64", "barrier", "send of 4
  // float32 (16 bytes) to rank 1, tag 0".
  [[nodiscard]] std::string describe() const;
};
static_assert(std::has_unique_object_representations_v<CallHeader>,
              "nothing but values, without gaps: headers are sent as bytes");

inline constexpr std::string_view counts_by_rank = "the counts by rank";

// First difference between two ranks' calls: "the collective", "the element type", ..., at last
// counts_by_rank; empty: none. Counts of an all-to-all are compared apart.
[[nodiscard]] std::string_view first_difference(const CallHeader& a, const CallHeader& b);

// Points in a device's work around a collective on its memory.
struct DeviceOrder {
  int device = 0;
  DeviceStream stream = nullptr;             // what has made the input and will use the result
  std::shared_ptr<const DeviceEvent> ready;  // the input is there
  std::shared_ptr<const DeviceEvent> done;   // the result is there; set when the back end has begun
};

// A collective with this rank's part in it, for back ends and listeners. It does not own the
// buffers.
struct CollectiveCall : CallHeader {
  std::string name;   // for people, for example "bucket 3"; may be empty
  ConstBuffer input;  // of a collective in place the same as output
  Buffer output;
  std::vector<std::int64_t> send_counts;     // by rank, of an all-to-all
  std::vector<std::int64_t> receive_counts;  // by rank, of an all-to-all and an uneven all-gather
  int divisor = 1;  // an average is that of so many ranks' values, the others' being 0
  std::shared_ptr<DeviceOrder> order;  // of one on a device's memory
  int peer_in_job = -1;                // the rank in the job of a transfer's peer

  [[nodiscard]] static CollectiveCall all_reduce(const Buffer& buffer, ReduceOp op);
  [[nodiscard]] static CollectiveCall broadcast(const Buffer& buffer, int root);
  [[nodiscard]] static CollectiveCall all_gather(const ConstBuffer& input, const Buffer& output);
  [[nodiscard]] static CollectiveCall all_gather_uneven(const ConstBuffer& input,
                                                        const Buffer& output,
                                                        std::span<const std::int64_t> counts);
  [[nodiscard]] static CollectiveCall reduce_scatter(const ConstBuffer& input, const Buffer& output,
                                                     ReduceOp op);
  [[nodiscard]] static CollectiveCall all_to_all(const ConstBuffer& input,
                                                 std::span<const std::int64_t> send_counts,
                                                 const Buffer& output,
                                                 std::span<const std::int64_t> receive_counts);
  [[nodiscard]] static CollectiveCall send(const ConstBuffer& buffer, int peer, int tag = 0);
  [[nodiscard]] static CollectiveCall receive(const Buffer& buffer, int peer, int tag = 0);
  // A call without buffers: a barrier, a split, an allocation of `count` bytes.
  [[nodiscard]] static CollectiveCall of(Collective collective, std::int64_t count = 0);
};

// Throws Error where this rank alone can see that the call's arguments are wrong.
void check_arguments(const CollectiveCall& call, const Topology& topology);

// Hears of every collective and every transfer of a communicator, on whatever thread it is asked
// for or runs on. Must be quick, and must not call the communicator.
class CollectiveListener {
 public:
  virtual ~CollectiveListener() = default;
  // This rank has become a member of a set of `count` ranks, which has this call's `group`,
  // `first_rank` and `name`.
  virtual void on_group(const CollectiveCall& /*call*/) noexcept {}
  // This rank's last handle of the job's communicator, or of a set of ranks, is gone.
  virtual void on_leave(const CollectiveCall& /*call*/) noexcept {}
  // This rank is about to end the job (Communicator::announce_abort()).
  virtual void on_abort() noexcept {}
  // An asynchronous collective has been asked for, which runs later, or a transfer, which starts
  // when the other end has come too.
  virtual void on_submit(const CollectiveCall& /*call*/) noexcept {}
  virtual void on_start(const CollectiveCall& /*call*/) noexcept {}
  // The calling thread begins or ends waiting for a call that another thread does.
  virtual void on_wait(const CallHeader& /*call*/, bool /*begins*/) noexcept {}
  virtual void on_finish(const CollectiveCall& /*call*/, bool /*failed*/) noexcept {}
};

struct CallOptions {
  std::string name;                   // shown by the watch, in errors and in timelines
  std::shared_ptr<const void> owner;  // kept until an asynchronous collective is done: it may own
                                      // the buffers
};

}  // namespace kolo
