#include "parallel/pipeline/payload_exchange.h"

#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo::parallel {

namespace {

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
