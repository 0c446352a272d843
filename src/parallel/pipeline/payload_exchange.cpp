#include "parallel/pipeline/payload_exchange.h"

#include <cstddef>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo::parallel {

PayloadShape::PayloadShape(const StagePayload& payload) {
  for (const auto& tensor : payload) {
    Shape shape;
    if (tensor.defined()) {
      shape = {true, tensor.requires_grad(), tensor.scalar_type(), tensor.sizes().vec(),
               tensor.strides().vec()};
    }
    tensors_.push_back(std::move(shape));
  }
}

std::vector<std::int64_t> PayloadShape::words() const {
  std::vector<std::int64_t> words{static_cast<std::int64_t>(tensors_.size())};
  for (const auto& tensor : tensors_) {
    words.insert(words.end(), {tensor.is_defined ? 1 : 0, tensor.needs_gradient ? 1 : 0,
                               static_cast<std::int64_t>(data_type_of(tensor.type)),
                               static_cast<std::int64_t>(tensor.sizes.size())});
    words.insert(words.end(), tensor.sizes.begin(), tensor.sizes.end());
    words.insert(words.end(), tensor.strides.begin(), tensor.strides.end());
  }
  return words;
}

PayloadShape PayloadShape::from_words(std::span<const std::int64_t> words) {
  const auto take = [&](std::int64_t count) {
    if (count < 0 || static_cast<std::size_t>(count) > words.size())
      throw Error("parallel: pipeline: a payload's description is cut off; this is a bug");
    const auto taken = words.first(static_cast<std::size_t>(count));
    words = words.subspan(taken.size());
    return std::vector<std::int64_t>(taken.begin(), taken.end());
  };
  PayloadShape result;
  for (auto left = take(1).front(); left > 0; --left) {
    const auto head = take(4);
    Shape shape{head[0] != 0, head[1] != 0, scalar_type_of(static_cast<DataType>(head[2])),
                take(head[3]), take(head[3])};
    result.tensors_.push_back(std::move(shape));
  }
  return result;
}

std::vector<bool> PayloadShape::need_gradients() const {
  std::vector<bool> needs;
  for (const auto& tensor : tensors_) needs.push_back(tensor.needs_gradient);
  return needs;
}

StagePayload PayloadShape::allocate(const torch::Device& device) const {
  StagePayload payload;
  for (const auto& tensor : tensors_) {
    payload.push_back(tensor.is_defined
                          ? torch::empty_strided(tensor.sizes, tensor.strides,
                                                 torch::TensorOptions(tensor.type).device(device))
                          : torch::Tensor());
  }
  return payload;
}

std::string PayloadShape::describe() const {
  std::vector<std::string> texts;
  for (const auto& tensor : tensors_) {
    texts.push_back(
        tensor.is_defined
            ? fmt::format("{} [{}] of strides [{}]{}", name_of(data_type_of(tensor.type)),
                          fmt::join(tensor.sizes, ", "), fmt::join(tensor.strides, ", "),
                          tensor.needs_gradient ? " with a gradient" : "")
            : "none");
  }
  return fmt::format("{} tensor{}{}{}", texts.size(), texts.size() == 1 ? "" : "s",
                     texts.empty() ? "" : ": ", fmt::join(texts, "; "));
}

namespace {

// The same values in memory without gaps: the tensor itself where it has none.
torch::Tensor without_gaps(const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_non_overlapping_and_dense()) return tensor;
  return tensor.contiguous(tensor.suggest_memory_format());
}

// Memory without gaps as one row.
torch::Tensor as_row(const torch::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1});
}

std::string name_of_message(PipelinePayload kind, int stage, int micro_batch) {
  return fmt::format("{} of stage {}, micro-batch {}", kolo::name_of(kind), stage, micro_batch);
}

}  // namespace

PayloadExchange::PayloadExchange(Communicator pipe, const torch::Device& device)
    : pipe_(std::move(pipe)), device_(device) {}

void PayloadExchange::send(const PipelineAction& action, const StagePayload& payload) {
  const int stage = pipe_.rank(), peer = peer_of(action, stage);
  const int tag = tag_of(action.payload, action.micro_batch);
  const auto name = name_of_message(action.payload, stage, action.micro_batch);
  StagePayload dense;
  for (const auto& tensor : payload) dense.push_back(without_gaps(tensor));
  const PayloadShape mine(dense);
  const auto [known, is_first] = shapes_.try_emplace({action.payload, stage}, mine);
  if (is_first) {
    send_shape(mine, peer, tag, name);
  } else if (mine != known->second) {
    throw Error(fmt::format(
        "parallel: pipeline: rank {} (stage {}) has {} for the {}, but agreed with rank {} on {}; "
        "every micro-batch must have the same shapes and types: leave out a last batch that is "
        "smaller",
        pipe_.rank(), stage, mine.describe(), name, peer, known->second.describe()));
  }
  for (const auto& tensor : dense) {
    if (!tensor.defined() || tensor.numel() == 0) continue;
    const auto row = std::make_shared<torch::Tensor>(as_row(tensor.detach()));
    sends_.push_back(pipe_.send_async(buffer_of(*row), peer, tag, {name, row}));
  }
}

void PayloadExchange::post_receive(const PipelineAction& action) {
  const int peer = peer_of(action, pipe_.rank());
  const int tag = tag_of(action.payload, action.micro_batch);
  auto& pending = posted_[tag];
  pending = {.peer = peer};
  const Stream stream{action.payload, peer};
  if (shapes_.contains(stream))
    start(pending, tag, stream, name_of_message(action.payload, peer, action.micro_batch));
}

void PayloadExchange::start(Pending& pending, int tag, const Stream& stream,
                            const std::string& name) {
  pending.is_started = true;
  pending.payload = shapes_.at(stream).allocate(device_);
  for (const auto& tensor : pending.payload) {
    if (!tensor.defined() || tensor.numel() == 0) continue;
    const auto row = std::make_shared<torch::Tensor>(as_row(tensor));
    pending.works.push_back(pipe_.receive_async(buffer_of(*row), pending.peer, tag, {name, row}));
  }
}

PayloadExchange::Received PayloadExchange::finish_receive(PipelinePayload kind, int micro_batch) {
  const Stopwatch watch;
  const int tag = tag_of(kind, micro_batch);
  auto pending = std::move(posted_.extract(tag).mapped());
  const Stream stream{kind, pending.peer};
  const auto name = name_of_message(kind, pending.peer, micro_batch);
  if (!shapes_.contains(stream)) shapes_[stream] = receive_shape(pending.peer, tag, name);
  if (!pending.is_started) start(pending, tag, stream, name);
  for (const auto& work : pending.works) work.wait();
  waiting_seconds_ += watch.seconds();
  return {std::move(pending.payload), shapes_.at(stream).need_gradients()};
}

// Two messages, since the second one's length is not known.
void PayloadExchange::send_shape(const PayloadShape& shape, int peer, int tag,
                                 const std::string& name) {
  const auto words = std::make_shared<std::vector<std::int64_t>>(shape.words());
  words->insert(words->begin(), static_cast<std::int64_t>(words->size()));
  const auto all = std::span<const std::int64_t>(*words);
  sends_.push_back(pipe_.send_async(all.first(1), peer, tag, {name + ", length", words}));
  sends_.push_back(pipe_.send_async(all.subspan(1), peer, tag, {name + ", shapes", words}));
}

PayloadShape PayloadExchange::receive_shape(int peer, int tag, const std::string& name) {
  std::int64_t length = 0;
  pipe_.receive(std::span(&length, 1), peer, tag, {name + ", length"});
  std::vector<std::int64_t> words(narrow<std::size_t>(length));
  pipe_.receive(std::span(words), peer, tag, {name + ", shapes"});
  return PayloadShape::from_words(words);
}

void PayloadExchange::finish_sends() {
  const Stopwatch watch;
  for (const auto& work : std::exchange(sends_, {})) work.wait();
  waiting_seconds_ += watch.seconds();
}

double PayloadExchange::take_waiting_seconds() {
  return std::exchange(waiting_seconds_, 0);
}

}  // namespace kolo::parallel
