#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/base/network_stage.h"
#include "kolo/comm/communicator.h"
#include "kolo/layout/pipeline_schedule.h"

namespace kolo::parallel {

// Types and shapes of a payload's tensors, on which two ranks agree once.
class PayloadShape {
 public:
  PayloadShape() = default;
  explicit PayloadShape(const StagePayload& payload);
  // Inverse of words(), of another rank's. Error for anything else.
  [[nodiscard]] static PayloadShape from_words(std::span<const std::int64_t> words);

  [[nodiscard]] std::vector<std::int64_t> words() const;
  [[nodiscard]] std::vector<bool> need_gradients() const;
  // New memory for such tensors, undefined where they are.
  [[nodiscard]] StagePayload allocate(const torch::Device& device) const;
  // "2 tensors: float32 [4, 8, 16, 16] of strides [2048, 1, 128, 8], none"
  [[nodiscard]] std::string describe() const;

  friend bool operator==(const PayloadShape&, const PayloadShape&) = default;

 private:
  struct Shape {
    bool is_defined = false;
    bool needs_gradient = false;
    torch::ScalarType type = torch::kFloat;
    std::vector<std::int64_t> sizes, strides;

    friend bool operator==(const Shape&, const Shape&) = default;
  };

  std::vector<Shape> tensors_;
};

// Sends and receives the payloads of one rank's list of actions. What a stage sends looks alike for
// all micro-batches: its first payload is preceded by a description, which both ends keep; a later
// one that looks different is an Error on the rank that would send it, which names both.
class PayloadExchange {
 public:
  // `pipe`: the ranks of the pipeline; `device`: where payloads are received.
  PayloadExchange(Communicator pipe, const torch::Device& device);

  // Starts a send; the tensors may not be written until the end of the step.
  void send(const PipelineAction& action, const StagePayload& payload);
  // Posts a receive if the payload's shape is known already; otherwise finish_receive() does.
  void post_receive(const PipelineAction& action);

  struct Received {
    StagePayload payload;
    std::vector<bool> need_gradients;
  };
  // Waits for the payload of an earlier post_receive().
  [[nodiscard]] Received finish_receive(PipelinePayload kind, int micro_batch);

  // Waits until all payloads that were sent are received.
  void finish_sends();

  // Seconds for which finish_receive() and finish_sends() have waited since the last call.
  [[nodiscard]] double take_waiting_seconds();

 private:
  struct Stream {  // of payloads: kind and sending rank, whose stage has the same number
    PipelinePayload kind = PipelinePayload::activation;
    int sender = 0;
    friend auto operator<=>(const Stream&, const Stream&) = default;
  };
  struct Pending {
    int peer = 0;
    bool is_started = false;
    StagePayload payload;
    std::vector<Work> works;
  };

  void start(Pending& pending, int tag, const Stream& stream, const std::string& name);
  [[nodiscard]] PayloadShape receive_shape(int peer, int tag, const std::string& name);
  void send_shape(const PayloadShape& shape, int peer, int tag, const std::string& name);

  Communicator pipe_;
  torch::Device device_;
  std::map<Stream, PayloadShape> shapes_;
  std::map<int, Pending> posted_;  // by tag
  std::vector<Work> sends_;
  double waiting_seconds_ = 0;
};

}  // namespace kolo::parallel
