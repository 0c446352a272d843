#include "data/copies_ahead.h"

#include <utility>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace kolo {

CopiesAhead::CopiesAhead(const torch::Device& device)
    : device_(device),
      stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

CopiesAhead::~CopiesAhead() {
  try {
    stream_.synchronize();
  } catch (...) {  // a device that has failed copies nothing any more, and fails the next call too
  }
}

// The memory belongs to the copies' stream, so that what is used again is not overwritten early.
torch::Tensor CopiesAhead::copied(const torch::Tensor& tensor) const {
  if (!tensor.defined()) return tensor;
  auto copy = torch::empty(tensor.sizes(), tensor.options().device(device_));
  copy.copy_(tensor, /*non_blocking=*/true);
  return copy;
}

void CopiesAhead::add(Batch batch) {
  // This may be a validation's thread, whose mode must not stick to what is trained with.
  const c10::InferenceMode normal_tensors(false);
  const c10::StreamGuard guard(stream_);
  Source source{batch.input, batch.target, c10::Event(device_.type())};
  try {
    batch.input = copied(source.input);
    batch.target = copied(source.target);
  } catch (...) {
    stream_.synchronize();  // one of them may be under way
    throw;
  }
  source.copied.record(stream_);
  ahead_.push_back({std::move(batch), std::move(source)});
}

Batch CopiesAhead::take() {
  auto [batch, source] = std::move(ahead_.front());
  ahead_.pop_front();
  const auto current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  source.copied.block(current);
  for (const auto& tensor : {batch.input, batch.target}) {
    if (tensor.defined()) tensor.record_stream(current);
  }
  left_.push_back(std::move(source));
  return std::move(batch);
}

void CopiesAhead::hand_back() {
  std::erase_if(left_, [](const Source& source) { return source.copied.query(); });
  for (auto& [batch, source] : ahead_) {
    if (!source.copied.query()) break;  // as are all that were begun after it
    source.input.reset();
    source.target.reset();
  }
}

void CopiesAhead::drop() {
  for (auto& [batch, source] : ahead_) left_.push_back(std::move(source));
  ahead_.clear();
}

}  // namespace kolo
