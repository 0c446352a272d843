#include "kolo/online/online_network.h"

#include <utility>

#include "online/host_state.h"
#include "online/inside.h"

// What a call leaves of the program's state, and then the call.
namespace kolo {

using online::BlasThreads;
using online::HostState;

OnlineNetwork::OnlineNetwork(const Communicator& ranks, const OnlineConfig& config,
                             OnlineParts parts) {
  const HostState host;
  const BlasThreads blas;
  inside_ = std::make_unique<Inside>(ranks, config, std::move(parts));
}

OnlineNetwork::OnlineNetwork(OnlineNetwork&&) noexcept = default;
OnlineNetwork& OnlineNetwork::operator=(OnlineNetwork&&) noexcept = default;

OnlineNetwork::~OnlineNetwork() {
  const HostState host;
  inside_.reset();
}

PushReport OnlineNetwork::push(std::span<const Array> inputs, std::span<const Array> targets,
                               std::span<const Array> extras) {
  const HostState host;
  return inside_->push(inputs, targets, extras);
}

TickReport OnlineNetwork::tick(std::int64_t time_step) {
  const HostState host;
  const BlasThreads blas;
  return inside_->tick(time_step);
}

double OnlineNetwork::train(std::span<const Array> inputs, std::span<const Array> targets,
                            std::span<const Array> extras) {
  const HostState host;
  const BlasThreads blas;
  return inside_->train(inputs, targets, extras);
}

void OnlineNetwork::infer(std::span<const Array> inputs, std::span<const Array> outputs) const {
  const HostState host;
  inside_->infer(inputs, outputs);
}

void OnlineNetwork::warm_up(std::span<const Array> inputs) const {
  const HostState host;
  inside_->warm_up(inputs);
}

TickReport OnlineNetwork::serve() {
  const HostState host;
  const BlasThreads blas;
  return inside_->serve();
}

std::int64_t OnlineNetwork::refresh() {
  const HostState host;
  return inside_->refresh();
}

void OnlineNetwork::finish() {
  const HostState host;
  inside_->finish();
}

void OnlineNetwork::start() {
  const HostState host;
  inside_->start();
}

void OnlineNetwork::pause() {
  const HostState host;
  inside_->pause();
}

void OnlineNetwork::save(const std::filesystem::path& folder, std::int64_t tag) {
  const HostState host;
  const BlasThreads blas;
  inside_->save(folder, tag);
}

void OnlineNetwork::restore(const std::filesystem::path& folder, std::int64_t tag) {
  const HostState host;
  const BlasThreads blas;
  inside_->restore(folder, tag);
}

void OnlineNetwork::log(std::string_view name, std::int64_t step, double value) {
  const HostState host;
  inside_->log(name, step, value);
}

double OnlineNetwork::get(std::string_view name) const {
  const HostState host;
  return inside_->get(name);
}

bool OnlineNetwork::trains() const {
  return inside_->trains();
}

}  // namespace kolo
