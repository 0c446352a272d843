#include "comm/mpi/shared_windows.h"

#include <cstring>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr std::size_t alignment = 64;

std::byte* aligned(void* base) {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  return reinterpret_cast<std::byte*>((address + alignment - 1) / alignment * alignment);
}

}  // namespace

SharedWindows::SharedWindows(std::shared_ptr<const MpiRuntime> runtime, const MpiGroup& node)
    : runtime_(std::move(runtime)), node_(node), local_rank_(node.rank()) {}

SharedWindows::~SharedWindows() {
  if (!runtime_->is_healthy()) return;
  for (auto window = windows_.rbegin(); window != windows_.rend(); ++window) {
    MPI_Win_unlock_all(window->handle);
    MPI_Win_free(&window->handle);
  }
}

std::optional<std::size_t> SharedWindows::add(std::size_t bytes) {
  const auto number = add_unwritten(bytes);
  if (!number) return std::nullopt;
  const MPI_Win window = windows_[*number].handle;
  std::memset(own_part(*number), 0, bytes);
  check_mpi(MPI_Win_sync(window), "MPI_Win_sync");
  check_mpi(MPI_Barrier(node_.get()), "MPI_Barrier");
  check_mpi(MPI_Win_sync(window), "MPI_Win_sync");
  return number;
}

std::optional<std::size_t> SharedWindows::add_unwritten(std::size_t bytes) {
  Window window;
  window.bytes = bytes;
  void* base = nullptr;
  MPI_Info info = MPI_INFO_NULL;
  check_mpi(MPI_Info_create(&info), "MPI_Info_create");
  // Each part may lie on its own pages: near its rank, and no page of two ranks.
  check_mpi(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
  const int code = MPI_Win_allocate_shared(narrow<MPI_Aint>(checked_add(bytes, alignment)), 1, info,
                                           node_.get(), &base, &window.handle);
  check_mpi(MPI_Info_free(&info), "MPI_Info_free");
  if (code != MPI_SUCCESS) return std::nullopt;
  // One access epoch for the window's whole life; who may touch what, and when, is settled by
  // NodeGroup's meetings.
  check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window.handle), "MPI_Win_lock_all");
  for (int peer = 0; peer < node_.size(); ++peer) {
    MPI_Aint size = 0;
    int unit = 0;
    void* address = nullptr;
    check_mpi(MPI_Win_shared_query(window.handle, peer, &size, &unit, &address),
              "MPI_Win_shared_query");
    // Pages are mapped at page boundaries in every process, so the offset to an aligned address is
    // the same for all.
    window.parts.push_back(aligned(address));
  }
  windows_.push_back(std::move(window));
  return windows_.size() - 1;
}

std::byte* SharedWindows::part(std::size_t window, int local_rank) const {
  return windows_.at(window).parts.at(static_cast<std::size_t>(local_rank));
}

std::optional<SharedLocation> SharedWindows::locate(const void* data, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  for (std::size_t index = 0; index < windows_.size(); ++index) {
    const Window& window = windows_[index];
    const std::byte* const own = own_part(index);
    if (begin >= own && begin + bytes <= own + window.bytes) {
      return SharedLocation{index, static_cast<std::uint64_t>(begin - own)};
    }
  }
  return std::nullopt;
}

std::byte* SharedWindows::address(int local_rank, SharedLocation location) const {
  return part(location.segment, local_rank) + location.offset;
}

}  // namespace kolo
