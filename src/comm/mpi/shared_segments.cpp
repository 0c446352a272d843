#include "comm/mpi/shared_segments.h"

#include <algorithm>
#include <array>

#include "comm/mpi/mpi_check.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// What every rank of the node asks for.
std::vector<std::size_t> sizes_of(const MpiGroup& node, std::size_t mine) {
  const std::uint64_t bytes = mine;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(node.size()));
  check_mpi(MPI_Allgather(&bytes, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, node.get()),
            "MPI_Allgather");
  return {all.begin(), all.end()};
}

std::string broadcast_name(const MpiGroup& node, const std::string& mine) {
  std::array<char, 64> text{};
  mine.copy(text.data(), text.size() - 1);
  check_mpi(MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, node.get()),
            "MPI_Bcast");
  return text.data();
}

}  // namespace

SharedSegments::SharedSegments(const MpiGroup& all, const MpiGroup& node)
    : all_(all), node_(node), local_rank_(node.rank()) {}

// No rank leaves before the end, whatever it could not do: the others would wait for it.
std::shared_ptr<SharedSegment> SharedSegments::add(std::size_t bytes, SharedSegment::Room room) {
  forget_unused();
  const bool is_first = local_rank_ == 0;
  auto segment = std::make_shared<SharedSegment>(local_rank_, sizes_of(node_, bytes), room);
  const auto name = broadcast_name(node_, is_first ? segment->create() : std::string());
  const bool is_there = !name.empty() && (is_first || segment->open(name));
  const bool is_everywhere = all_.all_ranks(is_there);  // and everybody has opened it
  if (is_first && !name.empty()) SharedSegment::remove_name(name);
  ++made_;
  if (!is_everywhere) return nullptr;
  segments_.push_back({made_, segment});
  return segment;
}

// Nobody finds memory of his own in a segment that no rank uses, so none will look for others'.
void SharedSegments::forget_unused() {
  std::erase_if(segments_, [](const Numbered& numbered) { return !numbered.segment->is_in_use(); });
}

std::shared_ptr<void> SharedSegments::use_of(std::shared_ptr<SharedSegment> segment) {
  struct Use {
    std::shared_ptr<SharedSegment> segment;
    explicit Use(std::shared_ptr<SharedSegment> used) : segment(std::move(used)) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { segment->release(); }
  };
  return std::make_shared<Use>(std::move(segment));
}

std::optional<SharedLocation> SharedSegments::locate(const void* data, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  for (const auto& [number, segment] : segments_) {
    const std::byte* const own = segment->part(local_rank_);
    if (begin >= own && begin + bytes <= own + segment->bytes(local_rank_))
      return SharedLocation{number, static_cast<std::uint64_t>(begin - own)};
  }
  return std::nullopt;
}

std::byte* SharedSegments::address(int local_rank, SharedLocation location) const {
  const auto found =
      std::find_if(segments_.begin(), segments_.end(),
                   [&](const Numbered& numbered) { return numbered.number == location.segment; });
  if (found == segments_.end())
    throw Error("comm: another rank's memory is in a segment that this rank doesn't have");
  return found->segment->part(local_rank) + location.offset;
}

}  // namespace kolo
