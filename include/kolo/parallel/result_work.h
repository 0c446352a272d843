#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"

namespace kolo {

// A pending operation on the communication thread that has a result. Copies refer to the same
// operation; it keeps its tensors alive until it is done, whether or not anybody waits. May be
// waited for from any thread.
template <typename T>
class ResultWork {
 public:
  // Starts a function, in turn with the communicator's other asynchronous collectives; what it
  // captures must not own the communicator, which is given to it.
  [[nodiscard]] static ResultWork start(const Communicator& communicator, CallOptions options,
                                        std::function<T(const Communicator&)> function) {
    ResultWork started;
    started.result_ = std::make_shared<std::optional<T>>();
    started.work_ =
        communicator.enqueue([result = started.result_, function = std::move(function)](
                                 const Communicator& ranks) { *result = function(ranks); },
                             std::move(options));
    return started;
  }

  // Blocks until the operation is done; throws what it threw (every waiter gets it). Error on one
  // that was made by default.
  [[nodiscard]] T get() const {
    work_.wait();
    return result_->value();
  }
  // The same without the result.
  void wait() const { work_.wait(); }

  // As wait(), for at most this long: false when it is not done by then.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit) const {
    return work_.wait_for(limit);
  }
  [[nodiscard]] bool is_done() const { return work_.is_done(); }

 private:
  Work work_;
  std::shared_ptr<std::optional<T>> result_;
};

using TensorWork = ResultWork<torch::Tensor>;
using TensorListWork = ResultWork<std::vector<torch::Tensor>>;

}  // namespace kolo
