#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/comm/communicator.h"
#include "kolo/online/online_network.h"
#include "online/inference.h"
#include "online/online_trainer.h"
#include "online/roles.h"
#include "online/sample_store.h"

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

  // Steps of `trainer` on samples of `store`. `ranks`: those that train. `threads`: of OpenMP, as
  // the program's.
  BackgroundTraining(const Call& call, const Communicator& ranks, OnlineTrainer& trainer,
                     SampleStore& store, Normalizer& normalizer, int threads);
  BackgroundTraining(const BackgroundTraining&) = delete;
  BackgroundTraining& operator=(const BackgroundTraining&) = delete;
  // Ends after the step that is under way, on all ranks.
  ~BackgroundTraining();
  void stop();

  // Rethrows the error that ended it; nothing while it goes on.
  void rethrow() const;

  // Asks for one more publication. Made where all ranks have asked for it.
  void ask_for_publication();
  // Number of publications until now; each is the same on all ranks.
  [[nodiscard]] std::int64_t published() const;
  // One that was made, and forgets those before.
  [[nodiscard]] Publication take(std::int64_t publication);

 private:
  void loop(int threads);
  [[nodiscard]] bool go_round();
  void step();
  void publish();

  Call call_;                      // in messages about its steps
  Communicator ranks_, meetings_;  // the latter in an order of their own
  OnlineTrainer& trainer_;
  SampleStore& store_;
  Normalizer& normalizer_;
  std::int64_t steps_ = 0;
  mutable std::mutex mutex_;
  bool is_asked_to_stop_ = false;
  std::int64_t asked_ = 0, published_ = 0;
  std::map<std::int64_t, Publication> publications_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace kolo::online

namespace kolo {

// Implementation of an OnlineNetwork, whose calls these are without what leaves the program's state
// alone. In sources by idea: making and answering (online_network.cpp), samples (pushing.cpp),
// training in time steps (ticking.cpp), beside them (background.cpp) and apart (serving.cpp), files
// (saving.cpp).
class OnlineNetwork::Inside {
 public:
  Inside(const Communicator& ranks, const OnlineConfig& config, OnlineParts parts);
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() = default;

  PushReport push(std::span<const Array> inputs, std::span<const Array> targets,
                  std::span<const Array> extras);
  TickReport tick(std::int64_t time_step);
  double train(std::span<const Array> inputs, std::span<const Array> targets,
               std::span<const Array> extras);
  void infer(std::span<const Array> inputs, std::span<const Array> outputs) const;
  void warm_up(std::span<const Array> inputs) const;
  TickReport serve();
  std::int64_t refresh();
  void finish();
  void start();
  void pause();
  void save(const std::filesystem::path& folder, std::int64_t tag);
  void restore(const std::filesystem::path& folder, std::int64_t tag);
  void log(std::string_view name, std::int64_t step, double value);
  [[nodiscard]] double get(std::string_view name) const;
  [[nodiscard]] bool trains() const { return roles_.trains; }

 private:
  [[nodiscard]] online::Call call(std::string_view name) const { return {name, ranks_.rank()}; }
  void require_computing(const online::Call& call) const;
  void require_foreground(const online::Call& call) const;
  [[nodiscard]] bool has_batch() const { return config_.training.samples != SampleKind::whole; }

  // Making.
  void make_network(const OnlineParts& parts);
  void make_trainer(const OnlineParts& parts);

  // Samples.
  std::int64_t take(const online::Records& records, PushReport& report);
  void require_known_shapes(const online::SampleArguments& arguments, const online::Call& call);
  void count_refused(std::int64_t samples, PushReport& report) const;
  void send_staged();
  void receive_staged();

  // Training in time steps.
  [[nodiscard]] TickReport report(std::int64_t steps) const;
  struct Plan {
    std::int64_t steps = 0;         // to be made now
    std::int64_t waiting_for = -1;  // a rank that has too few samples
  };
  [[nodiscard]] Plan plan_steps(const Communicator& ranks);
  void step(const std::function<online::Samples()>& samples, const online::Call& call,
            std::int64_t time_step);
  void record(std::int64_t time_step);
  void require_recorded();
  void make_steps(std::int64_t steps, std::int64_t time_step);
  // The weights as they are now become those that are inferred with, on all ranks that compute.
  void publish();
  [[nodiscard]] std::shared_ptr<online::Weights> live_weights();
  void hand_over(online::Weights& weights);
  TickReport take_newest(std::int64_t time_step);
  void agree_unless_all_train(const online::Call& call, const std::function<void()>& local);
  // Text that goes with weights to other ranks, and back.
  [[nodiscard]] std::string description_of(const online::Weights& weights) const;
  void take_description(const std::string& text, online::Weights& weights);

  // Apart.
  void take_letters();
  // Of the ranks that train: nothing where all ranks that compute ask for something.
  [[nodiscard]] std::optional<Plan> agree_on_plan();
  [[nodiscard]] bool answer();
  void send_weights();
  void receive_weights();
  // Of all ranks that compute, to those that train.
  void ask(const online::Call& call, online::Letter::Kind kind, std::int64_t number = 0,
           const std::string& text = {});
  void receive_answer(const online::Call& call);

  // Files. `ranks`: all, or those that train apart.
  [[nodiscard]] int first_trainer_in(const Communicator& ranks) const;
  void save_on(const Communicator& ranks, const std::filesystem::path& folder, std::int64_t tag);
  void restore_on(const Communicator& ranks, const std::filesystem::path& folder, std::int64_t tag);
  [[nodiscard]] nlohmann::json save_reservoir(const std::filesystem::path& folder) const;
  void restore_reservoir(const std::filesystem::path& folder, const nlohmann::json& states);

  Communicator ranks_;
  OnlineConfig config_;
  online::Roles roles_;
  std::optional<Communicator> trainers_;   // on those that train
  std::optional<Communicator> computing_;  // of roles apart: on those that compute
  std::shared_ptr<TensorsNetwork> network_;
  bool has_tensors_outside_ = false;  // buffers, frozen parameters: the arena doesn't average them
  std::unique_ptr<online::LiveWeights> live_;
  std::unique_ptr<online::OnlineTrainer> trainer_;  // on those that train
  online::SampleStore store_;
  online::Normalizer normalizer_;
  std::unique_ptr<online::Inference> inference_;
  std::unique_ptr<online::TrainingRecords> records_;  // on the one that writes them
  std::exception_ptr record_failure_;
  online::TrainingProgress progress_;  // as this rank knows it
  std::int64_t ticks_ = 0, time_step_ = 0;
  double step_seconds_ = 0;  // of a step, as it was measured last
  std::int64_t taken_ = 0;   // newest publication of the background that is inferred with

  // On those that don't train.
  std::optional<online::SampleShapes> shapes_;
  online::Records staged_;
  std::optional<online::Outbox> outbox_;
  bool is_finished_ = false;

  // On those that train for others apart.
  std::vector<online::Inbox> inboxes_;

  std::unique_ptr<online::BackgroundTraining> background_;  // the first to go
};

}  // namespace kolo
