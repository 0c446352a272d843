#include "optim/kernels.h"

#include "kolo/base/error.h"

// In place of device_kernels.cu, where kolo is built without CUDA.
namespace kolo::optim {

namespace {

[[noreturn]] void fail() {
  throw Error(
      "optim: a step on a CUDA device was asked for, but kolo was built without CUDA; build it "
      "with -D KOLO_CUDA=ON, nvcc and a LibTorch with CUDA, or keep the buffers in the host's "
      "memory");
}

}  // namespace

template <typename Step>
void run_steps_on_device(const FlatSlice<typename Step::Element>& /*slice*/,
                         const DeviceUpdate& /*device*/, const double* /*scale*/) {
  fail();
}

template <typename T>
const double* lars_scale_on_device(const FlatSlice<T>& /*slice*/, const DeviceUpdate& /*device*/) {
  fail();
}

template <typename T>
const double* lamb_scale_on_device(const FlatSlice<T>& /*slice*/, const DeviceUpdate& /*device*/) {
  fail();
}

KOLO_INSTANTIATE_DEVICE_KERNELS

}  // namespace kolo::optim
