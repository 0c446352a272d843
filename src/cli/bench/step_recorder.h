#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "kolo/comm/collective_call.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/bucket_plan.h"

namespace kolo {

// When the parts of a training step were done, in seconds.
struct RecordedStep {
  double forward = 0;
  double backward = 0;
  double rest = 0;            // after the last gradient
  std::vector<double> ready;  // by bucket, from backward's beginning: its last gradient
};

// Watches a trainer's steps from outside: hooks after the trainer's own on the parameters tell
// when gradients are ready, and the sum of the metrics, which a trainer asks for between forward
// and backward, when those change. To be made after the trainer, and added to its communicator's
// listeners; the network has the hooks for good.
class StepRecorder final : public CollectiveListener {
 public:
  explicit StepRecorder(const Network& network);

  // Around a step.
  void begin();
  [[nodiscard]] RecordedStep end(const BucketPlan& plan) const;

  void on_submit(const CollectiveCall& call) noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Gradient {
    std::string name;
    Clock::time_point ready;
    // Keeps the hook, which autograd would drop together with it.
    std::shared_ptr<torch::autograd::Node> accumulator;
  };

  std::shared_ptr<std::vector<Gradient>> gradients_;
  Clock::time_point begin_;
  Clock::time_point backward_;
};

}  // namespace kolo
