#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "kolo/comm/communicator.h"
#include "online/online_trainer.h"
#include "online/inference.h"

namespace kolo::online {

// Steps of training on a thread of their own, on all ranks that train in lockstep. Each round
// begins with a meeting of a few bytes, in which they agree whether to step, publish, or end.
class BackgroundTraining {
 public:
  // The network as a step has left it.
  struct Publication {
    std::shared_ptr<const Weights> weights;
    TrainingProgress progress;
  };
  struct Work {
    std::function<bool()> is_ready;         // to step; local
    std::function<void()> step;             // collective
    std::function<Publication()> snapshot;  // between steps; collective
  };

  // `ranks`: those that train, in an order of their own. `threads`: of OpenMP, as the program's.
  BackgroundTraining(Communicator ranks, Work work, int threads);
  BackgroundTraining(const BackgroundTraining&) = delete;
  BackgroundTraining& operator=(const BackgroundTraining&) = delete;
  // Ends after the step that is under way, on all ranks.
  ~BackgroundTraining();
  void stop();

  // What ended it, rethrown; nothing while it goes on.
  void rethrow() const;

  // Asks for one more publication. Made where all ranks have asked for it.
  void ask_for_publication();
  // How many were made; each is the same on all ranks.
  [[nodiscard]] std::int64_t published() const;
  // One that was made, and forgets those before.
  [[nodiscard]] Publication take(std::int64_t publication);

 private:
  void loop(int threads);
  [[nodiscard]] bool go_round();
  void publish();

  Communicator ranks_;
  Work work_;
  mutable std::mutex mutex_;
  bool is_asked_to_stop_ = false;
  std::int64_t asked_ = 0, published_ = 0;
  std::map<std::int64_t, Publication> publications_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace kolo::online
