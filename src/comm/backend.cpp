#include "kolo/comm/backend.h"

#include "kolo/base/error.h"

namespace kolo {

void Backend::all_gather_uneven(const ConstBuffer&, const Buffer&, std::span<const std::int64_t>) {
  throw Error("comm: this back end has no uneven all-gather");
}

void Backend::all_to_all(const ConstBuffer&, std::span<const std::int64_t>, const Buffer&,
                         std::span<const std::int64_t>) {
  throw Error("comm: this back end has no all-to-all");
}

std::vector<std::shared_ptr<std::byte>> Backend::allocate_shared(std::size_t) {
  return {};
}

std::shared_ptr<Backend> Backend::split(int, int) {
  throw Error("comm: this back end can't be split");
}

}  // namespace kolo
