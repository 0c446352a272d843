#include "nn/kernels/plain_kernels.h"

#include <utility>

namespace kolo {

namespace {

// By thread, as LibTorch's own modes (NoGradGuard, AutoGradMode) are: ranks may be threads.
thread_local bool wanted = false;

}  // namespace

PlainKernels::PlainKernels() : before_(std::exchange(wanted, true)) {}

PlainKernels::~PlainKernels() {
  wanted = before_;
}

bool PlainKernels::are_wanted() {
  return wanted;
}

}  // namespace kolo
