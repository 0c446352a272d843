#include "kolo/comm/communicator.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/communicator_group.h"
#include "comm/device/device_sharing.h"
#include "comm/solo/alone.h"
#include "kolo/base/checked.h"
#include "kolo/comm/topology.h"

namespace kolo {

Topology Topology::from_node_ids(int rank, std::span<const int> node_id_of_rank) {
  Topology topology;
  topology.rank = rank;
  topology.size = narrow<int>(node_id_of_rank.size());
  topology.node_of_rank.clear();
  std::map<int, int> node_of_id;
  for (const int id : node_id_of_rank) {
    const auto [entry, is_new] = node_of_id.try_emplace(id, narrow<int>(node_of_id.size()));
    topology.node_of_rank.push_back(entry->second);
  }
  topology.nodes = narrow<int>(node_of_id.size());
  const auto& nodes = topology.node_of_rank;
  const auto here = nodes.begin() + rank;
  topology.node = *here;
  topology.local_size = narrow<int>(std::count(nodes.begin(), nodes.end(), topology.node));
  topology.local_rank = narrow<int>(std::count(nodes.begin(), here, topology.node));
  return topology;
}

std::vector<int> Topology::ranks_on_node() const {
  std::vector<int> ranks;
  for (int each = 0; each < size; ++each) {
    if (node_of_rank[static_cast<std::size_t>(each)] == node) ranks.push_back(each);
  }
  return ranks;
}

int Topology::smallest_node() const {
  std::vector<int> ranks_on(static_cast<std::size_t>(nodes));
  for (const int at : node_of_rank) ++ranks_on[static_cast<std::size_t>(at)];
  return *std::min_element(ranks_on.begin(), ranks_on.end());
}

std::string Topology::describe() const {
  return fmt::format("rank {} of {}, local rank {} of {} on node {} of {}", rank, size, local_rank,
                     local_size, node, nodes);
}

namespace {

// One rank, to which there is nobody to talk.
class SoloBackend final : public Backend {
 public:
  [[nodiscard]] const Topology& topology() const override { return topology_; }

  [[nodiscard]] Capabilities capabilities() const override {
    return {.backend = "solo", .transport = "none", .asynchronous = false, .concurrent = true};
  }

  void execute(const CollectiveCall& call) override { execute_alone(call); }

  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override {
    return {allocate_aligned(static_cast<std::size_t>(call.count))};
  }

  [[nodiscard]] std::shared_ptr<Backend> split(int color, int) override {
    return color < 0 ? nullptr : std::make_shared<SoloBackend>();
  }

  void abort(int, std::string_view) noexcept override {}

 private:
  Topology topology_;
};

}  // namespace

Communicator Communicator::solo(const DeviceOptions& devices) {
  return Communicator(make_device_backend(std::make_shared<SoloBackend>(),
                                          std::make_shared<DeviceSharing>(devices)),
                      std::make_shared<Executor>(false));
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
  return group_->identity.number;
}

void Communicator::all_reduce(Buffer buffer, ReduceOp op, CallOptions options) const {
  group_->run(CollectiveCall::all_reduce(buffer, op), std::move(options));
}

Work Communicator::all_reduce_async(Buffer buffer, ReduceOp op, CallOptions options) const {
  return group_->submit(CollectiveCall::all_reduce(buffer, op), std::move(options));
}

void Communicator::broadcast(Buffer buffer, int root, CallOptions options) const {
  group_->run(CollectiveCall::broadcast(buffer, root), std::move(options));
}

Work Communicator::broadcast_async(Buffer buffer, int root, CallOptions options) const {
  return group_->submit(CollectiveCall::broadcast(buffer, root), std::move(options));
}

void Communicator::all_gather(ConstBuffer input, Buffer output, CallOptions options) const {
  group_->run(CollectiveCall::all_gather(input, output), std::move(options));
}

Work Communicator::all_gather_async(ConstBuffer input, Buffer output, CallOptions options) const {
  return group_->submit(CollectiveCall::all_gather(input, output), std::move(options));
}

void Communicator::all_gather_uneven(ConstBuffer input, Buffer output,
                                     std::span<const std::int64_t> counts,
                                     CallOptions options) const {
  group_->run(CollectiveCall::all_gather_uneven(input, output, counts), std::move(options));
}

Work Communicator::all_gather_uneven_async(ConstBuffer input, Buffer output,
                                           std::span<const std::int64_t> counts,
                                           CallOptions options) const {
  return group_->submit(CollectiveCall::all_gather_uneven(input, output, counts),
                        std::move(options));
}

void Communicator::reduce_scatter(ConstBuffer input, Buffer output, ReduceOp op,
                                  CallOptions options) const {
  group_->run(CollectiveCall::reduce_scatter(input, output, op), std::move(options));
}

Work Communicator::reduce_scatter_async(ConstBuffer input, Buffer output, ReduceOp op,
                                        CallOptions options) const {
  return group_->submit(CollectiveCall::reduce_scatter(input, output, op), std::move(options));
}

void Communicator::all_to_all(ConstBuffer input, std::span<const std::int64_t> send_counts,
                              Buffer output, std::span<const std::int64_t> receive_counts,
                              CallOptions options) const {
  group_->run(CollectiveCall::all_to_all(input, send_counts, output, receive_counts),
              std::move(options));
}

Work Communicator::all_to_all_async(ConstBuffer input, std::span<const std::int64_t> send_counts,
                                    Buffer output, std::span<const std::int64_t> receive_counts,
                                    CallOptions options) const {
  return group_->submit(CollectiveCall::all_to_all(input, send_counts, output, receive_counts),
                        std::move(options));
}

void Communicator::barrier(CallOptions options) const {
  group_->run(CollectiveCall::of(Collective::barrier), std::move(options));
}

Work Communicator::barrier_async(CallOptions options) const {
  return group_->submit(CollectiveCall::of(Collective::barrier), std::move(options));
}

Work Communicator::send_async(ConstBuffer buffer, int peer, int tag, CallOptions options) const {
  return group_->transfer({CollectiveCall::send(buffer, peer, tag)}, options);
}

void Communicator::send(ConstBuffer buffer, int peer, int tag, CallOptions options) const {
  send_async(buffer, peer, tag, std::move(options)).wait();
}

Work Communicator::receive_async(Buffer buffer, int peer, int tag, CallOptions options) const {
  return group_->transfer({CollectiveCall::receive(buffer, peer, tag)}, options);
}

void Communicator::receive(Buffer buffer, int peer, int tag, CallOptions options) const {
  receive_async(buffer, peer, tag, std::move(options)).wait();
}

Work Communicator::exchange_async(std::span<const Transfer> transfers, CallOptions options) const {
  std::vector<CollectiveCall> calls(transfers.begin(), transfers.end());
  std::ranges::stable_partition(
      calls, [](const CollectiveCall& call) { return call.collective == Collective::receive; });
  return group_->transfer(std::move(calls), options);
}

void Communicator::exchange(std::span<const Transfer> transfers, CallOptions options) const {
  exchange_async(transfers, std::move(options)).wait();
}

Work Communicator::enqueue(std::function<void(const Communicator&)> task,
                           CallOptions options) const {
  // The group waits for its tasks, so they need not own it.
  const Communicator borrowed(std::shared_ptr<Group>(std::shared_ptr<Group>(), group_.get()));
  return group_->submit(CollectiveCall::of(Collective::task), std::move(options),
                        [task = std::move(task), borrowed] { task(borrowed); });
}

namespace {

// Pieces that the back end allocates, in turn with the collectives.
std::vector<std::shared_ptr<std::byte>> allocated(Communicator::Group& group, Collective kind,
                                                  std::size_t bytes) {
  std::vector<std::shared_ptr<std::byte>> pieces;
  const auto call = CollectiveCall::of(kind, narrow<std::int64_t>(bytes));
  group.run(call, {}, [&] { pieces = group.backend->allocate(call); });
  return pieces;
}

}  // namespace

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) const {
  return allocated(*group_, Collective::allocate, bytes).front();
}

std::vector<std::shared_ptr<std::byte>> Communicator::allocate_shared(std::size_t bytes) const {
  return allocated(*group_, Collective::allocate_shared, bytes);
}

std::shared_ptr<std::byte> Communicator::allocate_for_node(std::size_t bytes) const {
  const auto pieces = allocated(*group_, Collective::allocate_for_node, bytes);
  return pieces.empty() ? nullptr : pieces.front();
}

std::optional<Communicator> Communicator::split(int color, int key, const std::string& name) const {
  auto set = make_set(color, key, name);
  if (set && is_checked() && set->size() > 1) group_->sets.add(set->group_);
  return set;
}

std::optional<Communicator> Communicator::make_set(int color, int key,
                                                   const std::string& name) const {
  std::shared_ptr<Backend> subset;
  std::vector<int> job_ranks;
  group_->run(CollectiveCall::of(Collective::split), {}, [&] {
    subset = group_->backend->split(color, key);
    if (!subset) return;
    job_ranks.resize(static_cast<std::size_t>(subset->topology().size));
    subset->execute(
        CollectiveCall::all_gather(std::span(&group_->identity.job_rank, 1), std::span(job_ranks)));
  });
  const auto number = group_->identity.number * 1000 + ++group_->sequence->splits;
  if (!subset) return std::nullopt;
  auto executor = subset->capabilities().concurrent
                      ? group_->executor->make_sibling(subset->capabilities().asynchronous)
                      : group_->executor;
  Communicator result(std::move(subset), std::move(executor));
  result.group_->identity = {number, group_->identity.job_rank, std::move(job_ranks)};
  const auto present = group_->listeners->get();
  result.group_->listeners->set(*present);
  CollectiveCall member;
  member.count = result.size();
  member.name = name;
  result.group_->identity.put_into(member);
  for (const auto& listener : *present) listener->on_group(member);
  return result;
}

std::optional<Communicator> Communicator::subset(std::span<const int> ranks) const {
  const std::set<int> distinct(ranks.begin(), ranks.end());
  if (ranks.empty() || distinct.size() < ranks.size() || *distinct.begin() < 0 ||
      *distinct.rbegin() >= size()) {
    throw Error(
        fmt::format("comm: a set of the ranks [{}]; expected at least one, each once, from 0 to {}",
                    fmt::join(ranks, ", "), size() - 1));
  }
  const auto found = std::find(ranks.begin(), ranks.end(), rank());
  const bool is_member = found != ranks.end();
  return split(is_member ? 0 : -1, is_member ? static_cast<int>(found - ranks.begin()) : 0);
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
  group_->backend->abort(exit_code, fmt::format("rank {} has called Communicator::abort()",
                                                group_->identity.job_rank));
}

void Communicator::announce_abort() const noexcept {
  for (const auto& listener : *group_->listeners->get()) listener->on_abort();
}

}  // namespace kolo
