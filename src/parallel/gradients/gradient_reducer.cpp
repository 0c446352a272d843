#include "kolo/parallel/gradient_reducer.h"

#include <algorithm>

#include "kolo/base/error.h"
#include "parallel/gradients/gradient_norm.h"
#include "parallel/gradients/reducer_state.h"

namespace kolo {

namespace {

std::shared_ptr<ParameterArena> make_arena(const Communicator& communicator,
                                           const torch::nn::Module& module,
                                           const ReducerOptions& options) {
  auto sparse = sparse_embeddings(module);
  for (const std::string& name : options.sparse_parameters) {
    if (std::find(sparse.begin(), sparse.end(), name) == sparse.end()) sparse.push_back(name);
  }
  return std::make_shared<ParameterArena>(communicator, module, options.buckets, sparse);
}

ReducerOptions with_rebuild_by_default(ReducerOptions options) {
  if (!options.rebuild_buckets) options.rebuild_buckets = true;
  return options;
}

}  // namespace

void GradientReducer::State::enter_quiet() {
  const std::lock_guard lock(mutex_);
  ++quiet_;
}

void GradientReducer::State::leave_quiet() {
  const std::lock_guard lock(mutex_);
  --quiet_;
}

void GradientReducer::State::clear_gradients() {
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter)
    tensor(parameter).mutable_grad() = torch::Tensor();
}

double GradientReducer::State::clip_gradient_norm(double maximum_norm, double norm_type) {
  if (has_begun_) {
    throw Error(
        "parallel: gradients can't be clipped between backward() and finish(), while they are "
        "averaged; call finish() first");
  }
  std::vector<torch::Tensor> gradients;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    const torch::Tensor gradient = tensor(parameter).grad();
    if (gradient.defined()) gradients.push_back(gradient);
  }
  return clip_norm(gradients, maximum_norm, norm_type);
}

ReducerStatistics GradientReducer::State::statistics() {
  const std::lock_guard lock(mutex_);
  ReducerStatistics result = statistics_;
  if (options_.hook) result.hook_bytes = options_.hook->bytes_sent() - hook_bytes_before_;
  return result;
}

void GradientReducer::State::reset_statistics() {
  const std::lock_guard lock(mutex_);
  statistics_ = {};
  if (options_.hook) hook_bytes_before_ = options_.hook->bytes_sent();
}

GradientReducer::GradientReducer(const Communicator& communicator,
                                 std::shared_ptr<ParameterArena> arena,
                                 const ReducerOptions& options)
    : state_(std::make_shared<State>(communicator, std::move(arena), options)) {
  state_->attach();
}

GradientReducer::GradientReducer(const Communicator& communicator, const torch::nn::Module& module,
                                 const ReducerOptions& options)
    : GradientReducer(communicator, make_arena(communicator, module, options),
                      with_rebuild_by_default(options)) {}

GradientReducer::~GradientReducer() = default;

GradientReducer::NoSync GradientReducer::no_sync() {
  state_->enter_quiet();
  return NoSync(
      std::shared_ptr<void>(state_.get(), [state = state_](void*) { state->leave_quiet(); }));
}

void GradientReducer::wait(std::size_t bucket) {
  state_->wait(bucket);
}

void GradientReducer::finish() {
  state_->finish();
}

bool GradientReducer::has_averages() const {
  return state_->has_averages();
}

void GradientReducer::take_averages() {
  state_->take_averages();
}

void GradientReducer::clear_gradients() {
  state_->clear_gradients();
}

double GradientReducer::clip_gradient_norm(double maximum_norm, double norm_type) {
  return state_->clip_gradient_norm(maximum_norm, norm_type);
}

const std::shared_ptr<ParameterArena>& GradientReducer::arena() const {
  return state_->arena();
}

ReducerStatistics GradientReducer::statistics() const {
  return state_->statistics();
}

void GradientReducer::reset_statistics() {
  state_->reset_statistics();
}

}  // namespace kolo
