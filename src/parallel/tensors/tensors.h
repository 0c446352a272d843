#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/StreamGuard.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"
#include "kolo/comm/topology.h"

// Tensors as the room's sources handle them: fused for the wire, told apart, passed over, and the
// streams of their devices.
namespace kolo {

// Tensors of one dtype among several, to travel in one buffer.
struct FusedTensors {
  std::vector<std::size_t> indices;  // in the list they came from
  torch::Tensor flat;                // contiguous, one-dimensional
};

// Groups tensors by dtype, in the order in which the dtypes first appear. A contiguous tensor that
// is alone of its dtype is not copied: flat is a view of it.
[[nodiscard]] std::vector<FusedTensors> fuse_by_type(torch::TensorList tensors);

// Copies the values in flat back into the tensors, as far as they are not the same memory.
void unfuse(const FusedTensors& fused, torch::TensorList tensors);

// The same memory as a contiguous tensor with at least one dimension; a copy where it is not
// contiguous.
[[nodiscard]] torch::Tensor as_rows(const torch::Tensor& tensor);

// Loss that an optimizer's closure has returned, averaged over the ranks, so that all decide alike.
// Collective. Error where it is not one value.
[[nodiscard]] torch::Tensor average_loss(const Communicator& communicator,
                                         const torch::Tensor& loss);

}  // namespace kolo

namespace kolo::parallel {

// The pointer that a program has given a class ("ArenaOptimizer") as its `what` ("optimizer").
// InputError where it is null.
template <typename Pointer>
[[nodiscard]] const Pointer& given(const Pointer& pointer, const char* who, const char* what) {
  if (pointer) return pointer;
  throw InputError(std::string("parallel: ") + who + ": the " + what +
                   " is a null pointer; make one before, and give it to " + who);
}

// Elements of a contiguous tensor of type T.
template <typename T>
[[nodiscard]] std::span<T> elements_of(const torch::Tensor& contiguous) {
  return {static_cast<T*>(contiguous.data_ptr()), static_cast<std::size_t>(contiguous.numel())};
}

// Elements [begin, end) of a rank's slice of a flat tensor, cut at multiples of 64, so that no two
// ranks write to one cache line.
[[nodiscard]] inline std::pair<std::int64_t, std::int64_t> slice_of(std::int64_t elements,
                                                                    int ranks, int rank) {
  constexpr std::int64_t grain = 64;
  const auto grains = divide_up(elements, grain);
  const auto cut = [&](std::int64_t of) { return std::min(elements, grains * of / ranks * grain); };
  return {cut(rank), cut(std::int64_t{rank} + 1)};
}

// The tensor itself unless it is sparse.
[[nodiscard]] inline torch::Tensor dense(const torch::Tensor& tensor) {
  return tensor.is_sparse() ? tensor.to_dense() : tensor;
}

// A tensor of a module, once, with all names that it has there (tied weights, a module that is
// registered twice).
struct DistinctTensor {
  torch::Tensor tensor;
  std::string name;  // the first
  std::vector<std::string> other_names = {};

  [[nodiscard]] bool is_called(const std::string& wanted) const;
  [[nodiscard]] std::string names() const;  // "first.weight", "first.weight (also last.weight)"
};

// Lists a module's tensors in the order of registration, without undefined ones.
[[nodiscard]] std::vector<DistinctTensor> distinct_tensors(
    const torch::OrderedDict<std::string, torch::Tensor>& tensors);

// Error that names a module's tensor ("buffer fft.factors") and says what to do if the arena or a
// collective can't take its values: sparse and complex ones.
void require_known_values(const torch::Tensor& tensor, const std::string& name);
// The same for a tensor that is broadcast, so that its elements need memory of their own, too.
void require_sendable(const torch::Tensor& tensor, const std::string& name);

// Error where a trainable parameter has elements in common with another parameter or a buffer: one
// would be moved into the arena without the other.
void require_memory_of_their_own(const torch::nn::Module& module);

// Reason why the ranks can't compute on the devices that they have; empty: they can. `devices`: of
// each rank a number that is equal for the same piece of hardware; 0: it has none.
[[nodiscard]] std::string device_problem(const Topology& topology,
                                         std::span<const std::int64_t> devices, bool may_share);

// Passes over whole tensors where they are, whose results stay there: of a device, in the order of
// the current stream, and nobody waits.

// `found`, one int32, becomes 1 where a dense tensor has an infinity or something that is not a
// number, and stays as it is otherwise.
void find_non_finite(const torch::Tensor& tensor, const torch::Tensor& found);

// Adds a dense tensor to the norm of several, before its root is taken: `total`, one float64.
// Values of 16 bits are made float32.
void add_to_norm(const torch::Tensor& tensor, const torch::Tensor& total);

// The checksums of dense tensors on one device or the host (checksum_of()), read from a device all
// at once: this waits.
[[nodiscard]] std::vector<std::int64_t> checksums_of(const std::vector<torch::Tensor>& tensors);

// The stream that LibTorch gives this thread's work on the device to. Null, the device's default
// stream, for devices other than CUDA's, and where kolo is built without CUDA.
[[nodiscard]] DeviceStream current_stream(const c10::Device& device);

// Tells whether what the current stream is given is captured for a graph of the device, and not
// done.
[[nodiscard]] bool is_capturing(const c10::Device& device);

// Captures work that a device is then given again and again in one call of what is returned, which
// spares the host what each operator costs it. It does the same to the same memory each time; what
// is to differ is written there before.
//
// On CUDA devices that is a CUDA graph of what `work` gives to the current stream, and does not do
// yet: nothing in it may wait for the device, and the stream must not be the default one, nor be
// another than that on which the parameters' gradients were first accumulated. Error where
// something can't be captured. On other devices the result is `work`.
[[nodiscard]] std::function<void()> capture_graph(const torch::Device& device,
                                                  std::function<void()> work);

// The stream of the thread that asks for a task, for the one that does it: what the task gives the
// device then follows what the first thread gave it before, and whoever waits for the task may use
// the result. Nothing for tensors of the host.
class TaskStream {
 public:
  [[nodiscard]] static TaskStream of(const torch::Tensor& tensor);
  // Makes the stream current while the result lives.
  [[nodiscard]] std::unique_ptr<c10::StreamGuard> enter() const {
    return stream_ ? std::make_unique<c10::StreamGuard>(*stream_) : nullptr;
  }

 private:
  std::optional<c10::Stream> stream_;
};

}  // namespace kolo::parallel
