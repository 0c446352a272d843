#pragma once

#include <cstddef>

#include "base/reduction_order.h"
#include "kolo/optim/flat_optimizer.h"
#include "optim/element_steps.h"

// The loops of the optimizers: on processors, compiled for several vector units, and on devices.
namespace kolo::optim {

// A step on each element of a slice: one function for each kind of step.
#define KOLO_DECLARE_STEPS(T, ...) \
  void run_steps(const __VA_ARGS__& step, const FlatSlice<T>& slice);
KOLO_FOR_EACH_STEP(KOLO_DECLARE_STEPS)
#undef KOLO_DECLARE_STEPS

// Sum of squares for a layer's scale, in double, in one order whatever the processor.
template <typename T>
double sum_of_squares(const T* values, std::size_t size);

// Updates the moments and writes the directions that follow from them; the parameters stay.
template <typename T>
void lamb_directions(const T* parameters, const T* gradients, T* mean, T* mean_square,
                     T* directions, std::size_t size, const LambConstants<T>& constants);

// The loops on CUDA devices (cuda/device_kernels.cu). They enqueue kernels on the update's stream
// and return. In a build without CUDA they throw Error (cuda/device_kernels_left_out.cpp).

// A step on each element of a slice, with a layer's scale in the device's memory, or null.
template <typename Step>
void run_steps_on_device(const FlatSlice<typename Step::Element>& slice, const DeviceUpdate& device,
                         const double* scale = nullptr);

// Scale of a layer, in the workspace: as on the host but for the order of additions
// (base/reduction_order.h).
template <typename T>
const double* lars_scale_on_device(const FlatSlice<T>& slice, const DeviceUpdate& device);
// Updates the moments as well.
template <typename T>
const double* lamb_scale_on_device(const FlatSlice<T>& slice, const DeviceUpdate& device);

// Instantiates all of the above, for cuda/device_kernels.cu and its stand-in.
#define KOLO_INSTANTIATE_DEVICE_STEPS(T, ...)                                              \
  template void run_steps_on_device<__VA_ARGS__>(const FlatSlice<T>&, const DeviceUpdate&, \
                                                 const double*);
#define KOLO_INSTANTIATE_LAYER_SCALES(T)                                                 \
  template const double* lars_scale_on_device(const FlatSlice<T>&, const DeviceUpdate&); \
  template const double* lamb_scale_on_device(const FlatSlice<T>&, const DeviceUpdate&);
#define KOLO_INSTANTIATE_DEVICE_KERNELS             \
  KOLO_FOR_EACH_STEP(KOLO_INSTANTIATE_DEVICE_STEPS) \
  KOLO_INSTANTIATE_LAYER_SCALES(float)              \
  KOLO_INSTANTIATE_LAYER_SCALES(double)

// Workspace of the two scales, for a parameter of as many elements: the scale, and two sums for
// each chunk, aligned alike.
constexpr std::size_t layer_scale_bytes(std::size_t size) {
  return (1 + reduction::chunks_of(size)) * 2 * sizeof(double);
}

}  // namespace kolo::optim
