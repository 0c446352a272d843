#include "comm/mpi/mpi_backend.h"

#include <array>
#include <new>

#include <fmt/format.h>

#include "comm/aligned_memory.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

// One number a rank, equal on the same node: the lowest world rank there.
int real_node_id(const MpiGroup& world) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world.get(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  int id = world.rank();
  check_mpi(MPI_Bcast(&id, 1, MPI_INT, 0, node), "MPI_Bcast");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  return id;
}

// The number of the pretended node that a rank is on.
int forced_node_id(int rank, int size, const std::vector<int>& ranks_on_nodes) {
  int id = -1, end = 0;
  for (std::size_t node = 0; node < ranks_on_nodes.size(); ++node) {
    if (rank >= end && rank < end + ranks_on_nodes[node]) id = static_cast<int>(node);
    end += ranks_on_nodes[node];
  }
  if (id < 0 || end != size) {
    throw Error(fmt::format("comm: the nodes given hold {} ranks, but the job has {}", end, size));
  }
  return id;
}

Topology find_topology(const MpiGroup& world, const std::vector<int>& ranks_on_nodes) {
  const int id = ranks_on_nodes.empty()
                     ? real_node_id(world)
                     : forced_node_id(world.rank(), world.size(), ranks_on_nodes);
  std::vector<int> ids(static_cast<std::size_t>(world.size()));
  check_mpi(MPI_Allgather(&id, 1, MPI_INT, ids.data(), 1, MPI_INT, world.get()), "MPI_Allgather");
  return Topology::from_node_ids(world.rank(), ids);
}

}  // namespace

MpiBackend::MpiBackend(std::shared_ptr<const MpiRuntime> runtime, const MpiOptions& options)
    : runtime_(std::move(runtime)),
      world_(MpiGroup::world(runtime_)),
      topology_(find_topology(world_, options.ranks_on_nodes)) {
  world_collectives_.emplace(world_.get(), options.largest_count);
  const bool is_wanted =
      options.shared_memory != SharedMemory::off && topology_.nodes < topology_.size;
  if (is_wanted) start_node_stage(options);
  if (options.shared_memory == SharedMemory::on && !node_group_) {
    throw Error(is_wanted ? "comm: MPI grants no shared-memory window on some node, but shared "
                            "memory was asked for; "
                            "make room in /dev/shm or use shared_memory: auto"
                          : "comm: shared memory was asked for, but no node has two ranks; use "
                            "shared_memory: auto");
  }
}

void MpiBackend::start_node_stage(const MpiOptions& options) {
  node_ = world_.split(topology_.node);
  windows_ = std::make_shared<SharedWindows>(runtime_, node_);
  const std::size_t cells = sizeof(AbortCell) + sizeof(RankCell);
  const auto window = windows_->add(checked_add(cells, options.staging_bytes));
  if (!all_ranks(window.has_value())) {
    windows_.reset();
    return;
  }
  std::byte* const own = windows_->own_part(*window);
  new (own) AbortCell{};
  new (own + sizeof(AbortCell)) RankCell{};
  check_mpi(MPI_Barrier(node_.get()), "MPI_Barrier");
  NodeMemory memory;
  memory.abort = reinterpret_cast<AbortCell*>(windows_->part(*window, 0));
  for (int peer = 0; peer < topology_.local_size; ++peer) {
    std::byte* const part = windows_->part(*window, peer);
    memory.cells.push_back(reinterpret_cast<RankCell*>(part + sizeof(AbortCell)));
    memory.staging.push_back(part + cells);
  }
  node_group_.emplace(topology_.local_rank, std::move(memory), windows_,
                      NodeGroupOptions{.staging_bytes = options.staging_bytes,
                                       .whole_limit_bytes = options.whole_limit_bytes});
  if (topology_.nodes > 1) {
    const bool has_slice = topology_.local_rank < topology_.smallest_node();
    across_ = world_.split(has_slice ? topology_.local_rank : -1);
    if (has_slice) across_collectives_.emplace(across_.get(), options.largest_count);
  }
}

bool MpiBackend::all_ranks(bool mine) const {
  int value = mine ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, world_.get()),
            "MPI_Allreduce");
  return value == 1;
}

Capabilities MpiBackend::capabilities() const {
  Capabilities capabilities;
  capabilities.backend = "mpi";
  capabilities.thread_level = name_of(runtime_->granted());
  capabilities.asynchronous = runtime_->granted() >= ThreadLevel::serialized;
  capabilities.shared_memory = node_group_.has_value();
  capabilities.transport = is_one_node() ? "shared memory"
                           : node_group_ ? "shared memory inside nodes, MPI between them"
                                         : "MPI";
  return capabilities;
}

void MpiBackend::all_reduce(const Buffer& buffer, ReduceOp op) {
  if (!node_group_) return world_collectives_->all_reduce(buffer, op, topology_.size);
  if (is_one_node()) return node_group_->all_reduce(buffer, op);
  const auto across = [&](const Buffer& slice) {
    if (slice.count > 0)
      across_collectives_->all_reduce(slice, op == ReduceOp::average ? ReduceOp::sum : op, 1);
  };
  node_group_->all_reduce(buffer, op, topology_.smallest_node(), topology_.size, across);
}

void MpiBackend::broadcast(const Buffer& buffer, int root) {
  if (is_one_node())
    node_group_->broadcast(buffer, root);
  else
    world_collectives_->broadcast(buffer, root);
}

void MpiBackend::all_gather(const ConstBuffer& input, const Buffer& output) {
  if (is_one_node())
    node_group_->all_gather(input, output);
  else
    world_collectives_->all_gather(input, output);
}

void MpiBackend::reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op) {
  if (is_one_node())
    node_group_->reduce_scatter(input, output, op);
  else
    world_collectives_->reduce_scatter(input, output, op);
}

void MpiBackend::barrier() {
  if (is_one_node())
    node_group_->barrier();
  else
    world_collectives_->barrier();
}

std::shared_ptr<std::byte> MpiBackend::allocate(std::size_t bytes) {
  if (!node_group_) return allocate_aligned(bytes);
  const auto window = windows_->add(bytes);
  // Private memory on one rank would make the ranks take different paths, so it is shared
  // everywhere or nowhere.
  if (!all_ranks(window.has_value())) return allocate_aligned(bytes);
  return {shared_from_this(), windows_->own_part(*window)};
}

void MpiBackend::abort(int exit_code) noexcept {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

Communicator mpi_communicator(const MpiOptions& options) {
  auto runtime = std::make_shared<const MpiRuntime>(options.thread_level);
  const bool threaded = runtime->granted() >= ThreadLevel::serialized;
  return {std::make_shared<MpiBackend>(std::move(runtime), options),
          std::make_shared<Executor>(threaded)};
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string version(text.data());  // Open MPI counts the final zero in the length
  return version.substr(0, version.find('\n'));
}

}  // namespace kolo
