#include "cli/rank/rank_guard.h"

#include <iostream>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

int run_guarded(const Communicator& communicator, const std::function<int()>& body) {
  try {
    return body();
  } catch (const CommunicationError&) {
    communicator.abort(1);
    throw;
  } catch (const std::exception& error) {
    if (communicator.size() == 1) throw;
    std::cerr << fmt::format("kolo: rank {}: {}\n", communicator.rank(), error.what())
              << std::flush;
    communicator.abort(1);
    throw;
  }
}

}  // namespace kolo
