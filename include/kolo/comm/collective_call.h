#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kolo/comm/data_type.h"

namespace kolo {

enum class Collective : std::uint32_t {
  none,
  all_reduce,
  broadcast,
  all_gather,
  all_gather_uneven,
  reduce_scatter,
  all_to_all,
  barrier,
  allocate,
  split,
  task,  // a function given to Communicator::enqueue
  join,  // a rank without data takes part in the others' collectives; only on that rank
};

[[nodiscard]] std::string_view name_of(Collective collective);

// One collective as a rank has asked for it. What the ranks must agree on is collective, type,
// detail and count; number is where in the communicator's sequence it stands, which is the same for
// all of them when they keep to one order.
struct CollectiveCall {
  Collective collective = Collective::none;
  DataType type = DataType::uint8;
  std::uint32_t detail = 0;  // the ReduceOp, or the root of a broadcast
  std::int64_t count = 0;    // elements; of what a rank puts in, or of its part of the result
  std::uint64_t number = 0;  // from 1; of a collective inside a task, the task's
  std::uint32_t part = 0;    // of a collective inside a task, which of its collectives, from 1
  std::uint32_t group = 0;   // 0 for the job, otherwise Communicator::group() of a set of ranks
  int first_rank = 0;  // the rank in the job of the group's first member: with `group` it tells
                       // groups apart
  std::string name;    // for people, for example "bucket 3"; may be empty

  // "all-reduce (sum) of 4 float32", "broadcast (from root 0) of 1 int64", "barrier".
  [[nodiscard]] std::string describe() const;
};

// Is told of every collective of a communicator. Called from whatever thread the collective is
// asked for or runs on, so implementations are thread-safe; they must be quick and not throw, and
// must not call the communicator.
class CollectiveListener {
 public:
  virtual ~CollectiveListener() = default;
  // This rank has become a member of a set of `count` ranks, whose calls will be like this one in
  // `group` and `first_rank`.
  virtual void on_group(const CollectiveCall& /*call*/) noexcept {}
  // This rank's last handle of the job's communicator, or of a set of ranks, is gone.
  virtual void on_leave(const CollectiveCall& /*call*/) noexcept {}
  // This rank is about to end the job (Communicator::announce_abort()).
  virtual void on_abort() noexcept {}
  // An asynchronous collective has been asked for; it runs later.
  virtual void on_submit(const CollectiveCall& /*call*/) noexcept {}
  virtual void on_start(const CollectiveCall& /*call*/) noexcept {}
  virtual void on_finish(const CollectiveCall& /*call*/, bool /*failed*/) noexcept {}
};

// What may be said about one call besides its arguments.
struct CallOptions {
  std::string name;                   // shown by the watch, in errors and in timelines
  std::shared_ptr<const void> owner;  // kept until an asynchronous collective is done: it may own
                                      // the buffers
};

}  // namespace kolo
