#include "kolo/parallel/gradient_reducer.h"

#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

class GradientReducer::State : public std::enable_shared_from_this<State> {
 public:
  State(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
        const ReducerOptions& options)
      : communicator_(std::move(communicator)), arena_(std::move(arena)), options_(options) {
    bucket_of_.resize(arena_->parameters().size());
    for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
      for (const auto& entry : arena_->plan().buckets[bucket].entries)
        bucket_of_[entry.parameter] = bucket;
    }
    start_over();
  }

  void attach();
  void gradient_is_ready(std::size_t parameter);
  void wait(std::size_t bucket);
  void finish();
  void clear_gradients();

  ReducerStatistics statistics;

 private:
  void start_over();
  void start_complete_buckets();
  void start(std::size_t bucket);
  [[nodiscard]] std::string missing_gradients(std::size_t bucket) const;

  Communicator communicator_;
  std::shared_ptr<const ParameterArena> arena_;
  ReducerOptions options_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<std::shared_ptr<torch::autograd::Node>>
      accumulators_;  // kept: an unused one would lose its hook

  std::mutex mutex_;                  // backward may run on several threads
  std::vector<bool> is_ready_;        // by parameter, in this step
  std::vector<std::size_t> missing_;  // gradients, by bucket
  std::size_t started_ = 0;           // buckets, in order
  std::vector<Work> works_;           // by bucket
};

namespace {

// Calls a function when autograd has accumulated into a parameter's gradient.
class AfterAccumulation final : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::function<void()> call) : call_(std::move(call)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

void GradientReducer::State::attach() {
  for (std::size_t index = 0; index < bucket_of_.size(); ++index) {
    auto accumulator = torch::autograd::impl::grad_accumulator(arena_->parameters()[index]);
    accumulator->add_post_hook(
        std::make_unique<AfterAccumulation>([weak = weak_from_this(), index] {
          if (const auto state = weak.lock()) state->gradient_is_ready(index);
        }));
    accumulators_.push_back(std::move(accumulator));
  }
}

void GradientReducer::State::start_over() {
  is_ready_.assign(bucket_of_.size(), false);
  missing_.clear();
  for (const Bucket& bucket : arena_->plan().buckets) missing_.push_back(bucket.entries.size());
  started_ = 0;
  works_.assign(arena_->buckets(), Work());
}

void GradientReducer::State::gradient_is_ready(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (is_ready_[parameter]) {
    throw Error(
        fmt::format("parallel: parameter {} got a second gradient in one step; call finish() after "
                    "each backward()",
                    arena_->plan().parameters[parameter].name));
  }
  torch::Tensor& gradient = arena_->parameters()[parameter].mutable_grad();
  const torch::Tensor& view = arena_->gradient_view(parameter);
  if (!gradient.is_same(view)) {
    const torch::NoGradGuard no_gradient;
    view.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    gradient = view;
  }
  is_ready_[parameter] = true;
  --missing_[bucket_of_[parameter]];
  if (options_.overlap) start_complete_buckets();
}

void GradientReducer::State::start_complete_buckets() {
  while (started_ < missing_.size() && missing_[started_] == 0) start(started_++);
}

void GradientReducer::State::start(std::size_t bucket) {
  const torch::Tensor& gradients = arena_->flat_gradients(bucket);
  statistics.bytes += static_cast<std::int64_t>(gradients.nbytes());
  if (communicator_.size() == 1) return;
  works_[bucket] =
      communicator_.all_reduce_async(buffer_of(gradients), ReduceOp::average,
                                     {.name = fmt::format("bucket {}", bucket), .owner = arena_});
}

void GradientReducer::State::wait(std::size_t bucket) {
  {
    const std::lock_guard lock(mutex_);
    start_complete_buckets();
    if (started_ <= bucket) throw Error(missing_gradients(bucket));
  }
  const Stopwatch watch;
  works_[bucket].wait();
  statistics.exposed_seconds += watch.seconds();
}

void GradientReducer::State::finish() {
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) wait(bucket);
  const std::lock_guard lock(mutex_);
  start_over();
  ++statistics.steps;
}

std::string GradientReducer::State::missing_gradients(std::size_t bucket) const {
  std::vector<std::string> names;
  for (std::size_t index = 0; index < bucket_of_.size(); ++index) {
    if (bucket_of_[index] <= bucket && !is_ready_[index])
      names.push_back(arena_->plan().parameters[index].name);
  }
  return fmt::format(
      "parallel: rank {}: backward gave no gradient to {}; every trainable parameter must take "
      "part in the loss (or not "
      "require a gradient)",
      communicator_.rank(), fmt::join(names, ", "));
}

void GradientReducer::State::clear_gradients() {
  for (const torch::Tensor& parameter : arena_->parameters())
    parameter.mutable_grad() = torch::Tensor();
}

GradientReducer::GradientReducer(Communicator communicator,
                                 std::shared_ptr<const ParameterArena> arena,
                                 const ReducerOptions& options)
    : state_(std::make_shared<State>(std::move(communicator), std::move(arena), options)) {
  state_->attach();
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::wait(std::size_t bucket) {
  state_->wait(bucket);
}

void GradientReducer::finish() {
  state_->finish();
}

void GradientReducer::clear_gradients() {
  state_->clear_gradients();
}

ReducerStatistics GradientReducer::statistics() const {
  return state_->statistics;
}

void GradientReducer::reset_statistics() {
  state_->statistics = {};
}

}  // namespace kolo
