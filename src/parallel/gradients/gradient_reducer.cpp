#include "kolo/parallel/gradient_reducer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/nn/modules/embedding.h>

#include "kolo/base/error.h"
#include "parallel/gradients/reducer_state.h"
#include "parallel/kernels.h"

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

template <typename T>
std::span<const T> values_of(const torch::Tensor& contiguous) {
  return {contiguous.data_ptr<T>(), static_cast<std::size_t>(contiguous.numel())};
}

// On a device; added up in double, and brought to the host once.
double device_norm_of(const std::vector<torch::Tensor>& tensors, double norm_type) {
  std::vector<torch::Tensor> norms;
  for (const torch::Tensor& tensor : tensors)
    norms.push_back(
        torch::linalg_vector_norm(tensor, norm_type, c10::nullopt, false, torch::kDouble));
  return torch::linalg_vector_norm(torch::stack(norms), norm_type).item<double>();
}

double norm_of(const std::vector<torch::Tensor>& tensors, double norm_type) {
  if (!tensors.empty() && !tensors.front().device().is_cpu())
    return device_norm_of(tensors, norm_type);
  double total = 0;
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.scalar_type() == torch::kDouble)
      total = parallel::add_to_norm(total, values_of<double>(tensor.contiguous()), norm_type);
    else
      total = parallel::add_to_norm(total, values_of<float>(tensor.to(torch::kFloat).contiguous()),
                                    norm_type);
  }
  if (std::isinf(norm_type)) return total;
  return norm_type == 2 ? std::sqrt(total) : std::pow(total, 1 / norm_type);
}

// Of dense and sparse gradients, as GradientReducer::clip_gradient_norm() says.
double clip_norm(const std::vector<torch::Tensor>& gradients, double maximum_norm,
                 double norm_type) {
  if (!(maximum_norm >= 0) || !(norm_type > 0)) {
    throw Error(fmt::format(
        "parallel: can't clip gradients to a {}-norm of {}; the norm must be 0 or more, and its "
        "type greater than 0 (or infinity)",
        norm_type, maximum_norm));
  }
  const torch::NoGradGuard no_gradient;
  // Of a sparse gradient that lists rows more than once the norm is that of their sums, but what is
  // scaled are the values that it holds: coalesce() gives a copy then.
  std::vector<torch::Tensor> sums, values;
  for (const torch::Tensor& gradient : gradients) {
    sums.push_back(gradient.is_sparse() ? gradient.coalesce()._values() : gradient);
    values.push_back(gradient.is_sparse() ? gradient._values() : gradient);
  }
  const double norm = norm_of(sums, norm_type);
  const double factor = maximum_norm / (norm + 1e-6);
  if (std::isfinite(norm) && factor < 1) {
    for (const torch::Tensor& tensor : values) tensor.mul_(factor);
  }
  return norm;
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

void GradientReducer::State::clear_gradients(bool set_to_none) {
  const torch::NoGradGuard no_gradient;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (set_to_none)
      tensor(parameter).mutable_grad() = torch::Tensor();
    else if (torch::Tensor gradient = tensor(parameter).grad(); gradient.defined())
      gradient.zero_();
  }
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

void GradientReducer::set_rates(std::vector<double> rates) {
  state_->set_rates(std::move(rates));
}

void GradientReducer::clear_gradients(bool set_to_none) {
  state_->clear_gradients(set_to_none);
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
