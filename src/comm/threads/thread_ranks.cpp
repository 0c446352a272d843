#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "comm/threads/thread_backend.h"
#include "comm/watch/watch.h"
#include "kolo/base/error.h"
#include "kolo/comm/threads.h"

namespace kolo {

namespace {

std::vector<int> node_ids(int ranks, const std::vector<int>& ranks_on_nodes) {
  std::vector<int> ids;
  for (std::size_t node = 0; node < ranks_on_nodes.size(); ++node) {
    ids.insert(ids.end(), static_cast<std::size_t>(ranks_on_nodes[node]), static_cast<int>(node));
  }
  if (ids.empty()) ids.resize(static_cast<std::size_t>(ranks), 0);
  if (static_cast<int>(ids.size()) != ranks) {
    throw Error(
        fmt::format("comm: threads: the nodes hold {} ranks, but there are {}", ids.size(), ranks));
  }
  return ids;
}

bool is_echo(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommunicationError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void run_as_threads(int ranks, const std::function<void(const Communicator&)>& body,
                    const ThreadRanksOptions& options) {
  const auto memory = std::make_shared<ThreadMemory>(ranks, options.staging_bytes, nullptr);
  const auto ids = node_ids(ranks, options.ranks_on_nodes);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  const auto run_rank = [&](int rank) {
    const auto backend =
        std::make_shared<ThreadBackend>(rank, Topology::from_node_ids(rank, ids), memory, options);
    const Communicator communicator(backend);
    try {
      if (options.watch.enabled)
        communicator.add_listener(std::make_shared<Watch>(backend, options.watch));
      body(communicator);
    } catch (...) {
      errors[static_cast<std::size_t>(rank)] = std::current_exception();
      communicator.abort();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  }
  std::erase(errors, nullptr);
  if (errors.empty()) return;
  const auto cause = std::find_if_not(errors.begin(), errors.end(), is_echo);
  std::rethrow_exception(cause == errors.end() ? errors.front() : *cause);
}

}  // namespace kolo
