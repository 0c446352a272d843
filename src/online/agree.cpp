#include "online/agree.h"

#include <exception>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "kolo/parallel/object_collectives.h"

namespace kolo::online {

void agree(const Communicator& ranks, const Call& call, const std::function<void()>& local) {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr failure;
  std::string words;
  try {
    local();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    words = error.what();
  }
  const std::int64_t mine = failure ? ranks.rank() : none;
  const auto first = all_reduce_value(ranks, mine, ReduceOp::min);
  if (first == none) return;
  const auto said = broadcast_bytes(ranks, words, static_cast<int>(first));
  if (failure) std::rethrow_exception(failure);
  throw CommunicationError(
      fmt::format("online: {} on rank {}: another rank could not take part, so it is not done: {}",
                  call.name, call.rank, said));
}

}  // namespace kolo::online
