#include "kolo/parallel/gradient_reducer.h"

#include <algorithm>

#include <torch/nn/modules/embedding.h>

#include "parallel/gradients/reducer_state.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

template <typename Embedding>
bool is_sparse_embedding(const torch::nn::Module& module) {
  const auto* const embedding = dynamic_cast<const Embedding*>(&module);
  return embedding != nullptr && embedding->options.sparse();
}

// Names of the parameters of Embedding and EmbeddingBag modules with sparse(true).
std::vector<std::string> sparse_embeddings(const torch::nn::Module& module) {
  std::vector<std::string> names;
  const auto look_at = [&](const torch::nn::Module& each, const std::string& prefix) {
    if ((is_sparse_embedding<torch::nn::EmbeddingImpl>(each) ||
         is_sparse_embedding<torch::nn::EmbeddingBagImpl>(each)) &&
        each.named_parameters(false)["weight"].requires_grad())
      names.push_back(prefix + "weight");
  };
  look_at(module, "");
  for (const auto& item : module.named_modules("", false)) look_at(*item.value(), item.key() + ".");
  return names;
}

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

void GradientReducer::State::add_no_sync(int scopes) {
  const std::lock_guard lock(mutex_);
  no_sync_scopes_ += scopes;
}

void GradientReducer::State::clear_gradients(bool set_to_none) {
  const torch::NoGradGuard no_gradient;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (set_to_none)
      tensor(parameter).mutable_grad() = torch::Tensor();
    else if (torch::Tensor gradient = tensor(parameter).grad(); gradient.defined())
      gradient.zero_();
  }
}

ReducerStatistics GradientReducer::State::statistics() {
  const std::lock_guard lock(mutex_);
  ReducerStatistics result = statistics_;
  result.exposed_seconds = exposed_.seconds();
  if (options_.hook) result.hook_bytes = options_.hook->bytes_sent() - hook_bytes_before_;
  return result;
}

void GradientReducer::State::reset_statistics() {
  const std::lock_guard lock(mutex_);
  statistics_ = {};
  exposed_ = {};
  if (options_.hook) hook_bytes_before_ = options_.hook->bytes_sent();
}

GradientReducer::GradientReducer(const Communicator& communicator,
                                 std::shared_ptr<ParameterArena> arena,
                                 const ReducerOptions& options)
    : state_(std::make_shared<State>(communicator,
                                     parallel::given(arena, "GradientReducer", "arena"), options)) {
  state_->attach();
}

GradientReducer::GradientReducer(const Communicator& communicator, const torch::nn::Module& module,
                                 const ReducerOptions& options)
    : GradientReducer(communicator, make_arena(communicator, module, options),
                      with_rebuild_by_default(options)) {}

GradientReducer::~GradientReducer() = default;

GradientReducer::NoSync GradientReducer::no_sync() {
  state_->add_no_sync(1);
  return {state_.get(), [state = state_](void*) { state->add_no_sync(-1); }};
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

void GradientReducer::set_rates(std::vector<double> rates) {
  state_->set_rates(std::move(rates));
}

void GradientReducer::clear_gradients(bool set_to_none) {
  state_->clear_gradients(set_to_none);
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
