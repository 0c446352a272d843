// The functions of CUDA's driver that LibTorch looks up in libcuda.
#include "machine.h"

extern "C" int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
  if (flags != nullptr) *flags = 0;
  *is_active = fake_cuda::Machine::instance().has_context(device) ? 1 : 0;
  return 0;
}
