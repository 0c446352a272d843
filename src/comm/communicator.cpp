#include "kolo/comm/communicator.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/collective_checks.h"
#include "comm/communicator_group.h"
#include "comm/solo/solo_backend.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

CollectiveCall call_of(Collective collective, const ConstBuffer& buffer, std::uint32_t detail = 0) {
  CollectiveCall call;
  call.collective = collective;
  call.type = buffer.type;
  call.detail = detail;
  call.count = buffer.count;
  return call;
}

CollectiveCall call_of(Collective collective, const ConstBuffer& buffer, ReduceOp op) {
  return call_of(collective, buffer, static_cast<std::uint32_t>(op));
}

std::vector<std::int64_t> copy_of(std::span<const std::int64_t> counts) {
  return {counts.begin(), counts.end()};
}

}  // namespace

Communicator Communicator::solo() {
  return Communicator(std::make_shared<SoloBackend>(), std::make_shared<Executor>(false));
}

Communicator::Communicator(std::shared_ptr<Backend> backend)
    : Communicator(backend, std::make_shared<Executor>(backend->capabilities().asynchronous)) {}

Communicator::Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Executor> executor)
    : group_(std::make_shared<Group>(std::move(backend), std::move(executor))) {}

const Topology& Communicator::topology() const {
  return group_->backend->topology();
}

Capabilities Communicator::capabilities() const {
  return group_->backend->capabilities();
}

std::uint32_t Communicator::group() const {
  return group_->number_in_job;
}

void Communicator::all_reduce(Buffer buffer, ReduceOp op, CallOptions options) const {
  check_all_reduce(buffer, op);
  group_->run(call_of(Collective::all_reduce, buffer, op), std::move(options),
              [&] { group_->backend->all_reduce(buffer, op, size()); });
}

Work Communicator::all_reduce_async(Buffer buffer, ReduceOp op, CallOptions options) const {
  check_all_reduce(buffer, op);
  return group_->submit(call_of(Collective::all_reduce, buffer, op), std::move(options),
                        [backend = group_->backend, buffer, op, ranks = size()] {
                          backend->all_reduce(buffer, op, ranks);
                        });
}

void Communicator::broadcast(Buffer buffer, int root, CallOptions options) const {
  check_broadcast(buffer, root, size());
  group_->run(call_of(Collective::broadcast, buffer, static_cast<std::uint32_t>(root)),
              std::move(options), [&] { group_->backend->broadcast(buffer, root); });
}

Work Communicator::broadcast_async(Buffer buffer, int root, CallOptions options) const {
  check_broadcast(buffer, root, size());
  return group_->submit(
      call_of(Collective::broadcast, buffer, static_cast<std::uint32_t>(root)), std::move(options),
      [backend = group_->backend, buffer, root] { backend->broadcast(buffer, root); });
}

void Communicator::all_gather(ConstBuffer input, Buffer output, CallOptions options) const {
  check_all_gather(input, output, size());
  group_->run(call_of(Collective::all_gather, input), std::move(options),
              [&] { group_->backend->all_gather(input, output); });
}

Work Communicator::all_gather_async(ConstBuffer input, Buffer output, CallOptions options) const {
  check_all_gather(input, output, size());
  return group_->submit(
      call_of(Collective::all_gather, input), std::move(options),
      [backend = group_->backend, input, output] { backend->all_gather(input, output); });
}

void Communicator::all_gather_uneven(ConstBuffer input, Buffer output,
                                     std::span<const std::int64_t> counts,
                                     CallOptions options) const {
  check_all_gather_uneven(input, output, counts, topology());
  group_->run(call_of(Collective::all_gather_uneven, output), std::move(options),
              [&] { group_->backend->all_gather_uneven(input, output, counts); });
}

Work Communicator::all_gather_uneven_async(ConstBuffer input, Buffer output,
                                           std::span<const std::int64_t> counts,
                                           CallOptions options) const {
  check_all_gather_uneven(input, output, counts, topology());
  return group_->submit(call_of(Collective::all_gather_uneven, output), std::move(options),
                        [backend = group_->backend, input, output, counts = copy_of(counts)] {
                          backend->all_gather_uneven(input, output, counts);
                        });
}

void Communicator::reduce_scatter(ConstBuffer input, Buffer output, ReduceOp op,
                                  CallOptions options) const {
  check_reduce_scatter(input, output, op, size());
  group_->run(call_of(Collective::reduce_scatter, input, op), std::move(options),
              [&] { group_->backend->reduce_scatter(input, output, op, size()); });
}

Work Communicator::reduce_scatter_async(ConstBuffer input, Buffer output, ReduceOp op,
                                        CallOptions options) const {
  check_reduce_scatter(input, output, op, size());
  return group_->submit(call_of(Collective::reduce_scatter, input, op), std::move(options),
                        [backend = group_->backend, input, output, op, ranks = size()] {
                          backend->reduce_scatter(input, output, op, ranks);
                        });
}

void Communicator::all_to_all(ConstBuffer input, std::span<const std::int64_t> send_counts,
                              Buffer output, std::span<const std::int64_t> receive_counts,
                              CallOptions options) const {
  check_all_to_all(input, send_counts, output, receive_counts, size());
  group_->run(call_of(Collective::all_to_all, input), std::move(options),
              [&] { group_->backend->all_to_all(input, send_counts, output, receive_counts); });
}

Work Communicator::all_to_all_async(ConstBuffer input, std::span<const std::int64_t> send_counts,
                                    Buffer output, std::span<const std::int64_t> receive_counts,
                                    CallOptions options) const {
  check_all_to_all(input, send_counts, output, receive_counts, size());
  return group_->submit(
      call_of(Collective::all_to_all, input), std::move(options),
      [backend = group_->backend, input, output, sent = copy_of(send_counts),
       received = copy_of(receive_counts)] { backend->all_to_all(input, sent, output, received); });
}

void Communicator::barrier(CallOptions options) const {
  group_->run(call_of(Collective::barrier, {}), std::move(options),
              [&] { group_->backend->barrier(); });
}

Work Communicator::barrier_async(CallOptions options) const {
  return group_->submit(call_of(Collective::barrier, {}), std::move(options),
                        [backend = group_->backend] { backend->barrier(); });
}

Work Communicator::enqueue(std::function<void()> task, CallOptions options) const {
  return group_->submit(call_of(Collective::task, {}), std::move(options), std::move(task));
}

Work Communicator::enqueue(std::function<void(const Communicator&)> task,
                           CallOptions options) const {
  // The group waits for its tasks before it goes, so they need no share in it.
  const Communicator borrowed(std::shared_ptr<Group>(std::shared_ptr<Group>(), group_.get()));
  return enqueue([task = std::move(task), borrowed] { task(borrowed); }, std::move(options));
}

namespace {

// What one of the back end's ways to allocate gives.
template <typename Memory>
Memory allocated(Communicator::Group& group, Memory (Backend::*allocate)(std::size_t),
                 std::size_t bytes) {
  Memory memory;
  const ConstBuffer size(nullptr, narrow<std::int64_t>(bytes), DataType::uint8);
  group.run(call_of(Collective::allocate, size), {},
            [&] { memory = (*group.backend.*allocate)(bytes); });
  return memory;
}

}  // namespace

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) const {
  return allocated(*group_, &Backend::allocate, bytes);
}

std::vector<std::shared_ptr<std::byte>> Communicator::allocate_shared(std::size_t bytes) const {
  return allocated(*group_, &Backend::allocate_shared, bytes);
}

std::shared_ptr<std::byte> Communicator::allocate_for_node(std::size_t bytes) const {
  return allocated(*group_, &Backend::allocate_for_node, bytes);
}

std::optional<Communicator> Communicator::split(int color, int key) const {
  auto set = make_set(color, key);
  if (set && is_checked()) group_->add_set(set->group_);
  return set;
}

std::optional<Communicator> Communicator::make_set(int color, int key) const {
  std::shared_ptr<Backend> part;
  std::int32_t first_rank = group_->job_rank;
  group_->run(call_of(Collective::split, {}), {}, [&] {
    part = group_->backend->split(color, key);
    if (part) part->broadcast(std::span(&first_rank, 1), 0);
  });
  const auto number = group_->number_in_job * 1000 + ++group_->sequence->splits;
  if (!part) return std::nullopt;
  auto executor = part->capabilities().concurrent
                      ? group_->executor->make_sibling(part->capabilities().asynchronous)
                      : group_->executor;
  Communicator result(std::move(part), std::move(executor));
  result.group_->number_in_job = number;
  result.group_->job_rank = group_->job_rank;
  result.group_->first_job_rank = first_rank;
  const auto present = group_->listeners->get();
  result.group_->listeners->set(*present);
  CollectiveCall member;
  member.count = result.size();
  member.group = number;
  member.first_rank = first_rank;
  for (const auto& listener : *present) listener->on_group(member);
  return result;
}

std::optional<Communicator> Communicator::subset(std::span<const int> ranks) const {
  check_subset(ranks, size());
  const auto place = std::find(ranks.begin(), ranks.end(), rank());
  const bool is_member = place != ranks.end();
  return split(is_member ? 0 : -1, is_member ? static_cast<int>(place - ranks.begin()) : 0);
}

void Communicator::add_listener(std::shared_ptr<CollectiveListener> listener) const {
  auto listeners = *group_->listeners->get();
  listeners.push_back(std::move(listener));
  group_->listeners->set(std::move(listeners));
}

void Communicator::remove_listener(const std::shared_ptr<CollectiveListener>& listener) const {
  auto listeners = *group_->listeners->get();
  std::erase(listeners, listener);
  group_->listeners->set(std::move(listeners));
}

void Communicator::abort(int exit_code) const noexcept {
  group_->backend->abort(exit_code);
}

void Communicator::announce_abort() const noexcept {
  for (const auto& listener : *group_->listeners->get()) listener->on_abort();
}

}  // namespace kolo
