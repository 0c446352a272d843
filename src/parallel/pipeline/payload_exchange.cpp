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

int stage_of(const PipelineShape& shape, const PipelineAction& action, int rank) {
  return action.chunk * shape.ranks + rank;
}

}  // namespace

PayloadExchange::PayloadExchange(Communicator pipe, const torch::Device& device)
    : pipe_(std::move(pipe)), device_(device) {}

void PayloadExchange::send(const PipelineShape& shape, const PipelineAction& action,
                           const StagePayload& payload) {
  const auto stage = stage_of(shape, action, pipe_.rank());
  const auto name = name_of_message(action.payload, stage, action.micro_batch);
  StagePayload dense;
  for (const auto& tensor : payload) dense.push_back(without_gaps(tensor));
  const PayloadShape mine(dense);
  const auto [known, is_first] = shapes_.try_emplace({action.payload, stage}, mine);
  if (is_first) {
    send_shape(mine, action.peer, action.tag, name);
  } else if (mine != known->second) {
    throw Error(fmt::format(
        "parallel: pipeline: rank {} (stage {}) has {} for the {}, but agreed with rank {} on {}; "
        "every micro-batch must have the same shapes and types: leave out a last batch that is "
        "smaller",
        pipe_.rank(), stage, mine.describe(), name, action.peer, known->second.describe()));
  }
  for (const auto& tensor : dense) {
    if (!tensor.defined() || tensor.numel() == 0) continue;
    const auto row = std::make_shared<torch::Tensor>(as_row(tensor.detach()));
    sends_.push_back(pipe_.send_async(buffer_of(*row), action.peer, action.tag, {name, row}));
  }
}

void PayloadExchange::post_receive(const PipelineShape& shape, const PipelineAction& action) {
  auto& pending = posted_[action.tag];
  pending = {.peer = action.peer};
  const auto stage = stage_of(shape, action, pipe_.rank());
  const Stream stream{action.payload,
                      action.payload == PipelinePayload::activation ? stage - 1 : stage + 1};
  if (shapes_.contains(stream)) {
    start(pending, action.tag, stream,
          name_of_message(stream.kind, stream.stage, action.micro_batch));
  }
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

PayloadExchange::Received PayloadExchange::finish_receive(const PipelineShape& shape,
                                                          PipelinePayload kind, int micro_batch,
                                                          int sending_stage) {
  const Stopwatch watch;
  const auto tag = pipeline_tag(shape, kind, micro_batch, sending_stage);
  auto pending = std::move(posted_.extract(tag).mapped());
  const Stream stream{kind, sending_stage};
  const auto name = name_of_message(kind, sending_stage, micro_batch);
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
