#include "meeting.h"

#include <string>

#include "kolo/base/error.h"

namespace kolo::bindings {

void meet(const Call& call, const Communicator& communicator, const std::exception_ptr& problem) {
  const int none = communicator.size();
  const int mine = problem ? communicator.rank() : none;
  const int first = all_reduce_value(communicator, mine, ReduceOp::min);
  if (problem) std::rethrow_exception(problem);
  if (first < none)
    throw CommunicationError("rank " + std::to_string(first) + " could not go on in " + call.name +
                             "; its own message says why");
}

}  // namespace kolo::bindings
