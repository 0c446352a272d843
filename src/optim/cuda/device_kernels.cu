#include "optim/kernels.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "base/cuda/block_total.h"
#include "base/cuda/launch.h"
#include "base/cuda/packs.h"
#include "base/reduction_order.h"

// Compiled with -fmad=false, so that elements become the same as on the host.
namespace kolo::optim {

namespace {

// Values that a kernel reads from the device's memory besides the buffers.
struct StepInputs {
  const double* constants;
  const double* scale;            // of the layer, or null
  const double* gradient_factor;  // or null
  const std::int32_t* left_out;   // or null

  StepInputs(const DeviceUpdate& device, const double* layer_scale)
      : constants(reinterpret_cast<const double*>(device.constants)),
        scale(layer_scale),
        gradient_factor(device.gradient_factor),
        left_out(device.left_out) {}

  __device__ bool is_left_out() const { return left_out != nullptr && *left_out != 0; }
  template <typename T>
  __device__ T factor() const {
    return gradient_factor != nullptr ? static_cast<T>(*gradient_factor) : T(1);
  }
};

template <typename T>
struct Buffers {
  T* parameters;
  const T* gradients;
  T* state[3];
};

template <typename Step, int width, typename T>
__device__ inline void run_pack(const Buffers<T>& buffers, std::size_t index, const Step& step,
                                T factor) {
  constexpr int states = Step::states;
  auto parameters = cuda::load<width>(buffers.parameters + index);
  const auto gradients = cuda::load<width>(buffers.gradients + index);
  cuda::Pack<T, width> state[3];
#pragma unroll
  for (int i = 0; i < states; ++i) state[i] = cuda::load<width>(buffers.state[i] + index);
#pragma unroll
  for (int k = 0; k < width; ++k) {
    T own[3];
#pragma unroll
    for (int i = 0; i < states; ++i) own[i] = state[i].values[k];
    step(parameters.values[k], gradients.values[k] * factor, own);
#pragma unroll
    for (int i = 0; i < states; ++i) state[i].values[k] = own[i];
  }
  cuda::store(buffers.parameters + index, parameters);
  if constexpr (Step::changes_state) {
#pragma unroll
    for (int i = 0; i < states; ++i) cuda::store(buffers.state[i] + index, state[i]);
  }
}

template <typename Step, typename T>
__global__ void __launch_bounds__(cuda::block_threads)
    steps_kernel(Buffers<T> buffers, cuda::Cut<T> cut, StepInputs inputs) {
  if (inputs.is_left_out()) return;
  const auto step = step_of<Step>(inputs.constants, inputs.scale != nullptr ? *inputs.scale : 1.);
  const T factor = inputs.factor<T>();
  cuda::for_each_pack(cut, [&]<int width>(std::size_t index) {
    run_pack<Step, width>(buffers, index, step, factor);
  });
}

// The buffers that a step has.
template <typename Step, typename T>
cuda::Cut<T> cut_of(const Buffers<T>& buffers, std::size_t size) {
  std::array<const T*, 2 + Step::states> all = {buffers.parameters, buffers.gradients};
  for (int i = 0; i < static_cast<int>(Step::states); ++i) all[2 + i] = buffers.state[i];
  return cuda::cut(size, all);
}

template <typename Step>
constexpr const char* name_of = "";
#define KOLO_NAME_STEP(T, ...) \
  template <>                  \
  constexpr const char* name_of<__VA_ARGS__> = #__VA_ARGS__;
KOLO_FOR_EACH_STEP(KOLO_NAME_STEP)
#undef KOLO_NAME_STEP

// Sums for two things at once: parameters, and gradients or directions.
struct Squares {
  double parameters, others;
};

struct AddSquares {
  __device__ Squares operator()(const Squares& a, const Squares& b) const {
    return {a.parameters + b.parameters, a.others + b.others};
  }
};

template <typename T>
__device__ inline Squares squares_of(T parameter, T other) {
  const auto a = static_cast<double>(parameter), b = static_cast<double>(other);
  return {a * a, b * b};
}

template <typename T>
struct LarsLayer {
  static constexpr const char* name = "scale of LARS";
  Buffers<T> buffers;
  T factor;

  __device__ LarsLayer(const Buffers<T>& all, const StepInputs& inputs)
      : buffers(all), factor(inputs.factor<T>()) {}
  __device__ Squares operator()(std::size_t i) const {
    return squares_of(buffers.parameters[i], buffers.gradients[i] * factor);
  }
  static __device__ double scale(const Squares& squares, const double* constants) {
    return lars_scale(squares.parameters, squares.others,
                      rounded<LarsConstants<double>, double>(constants));
  }
};

template <typename T>
struct LambLayer {
  static constexpr const char* name = "moments and scale of LAMB";
  Buffers<T> buffers;
  T factor;
  LambConstants<T> constants;

  __device__ LambLayer(const Buffers<T>& all, const StepInputs& inputs)
      : buffers(all),
        factor(inputs.factor<T>()),
        constants(rounded<LambConstants<T>, T>(inputs.constants)) {}
  __device__ Squares operator()(std::size_t i) const {
    const T parameter = buffers.parameters[i];
    const T direction = lamb_moments(parameter, buffers.gradients[i] * factor, buffers.state[0][i],
                                     buffers.state[1][i], constants);
    return squares_of(parameter, direction);
  }
  static __device__ double scale(const Squares& squares, const double* /*constants*/) {
    return lamb_scale(squares.parameters, squares.others);
  }
};

template <typename Layer, typename T>
__global__ void __launch_bounds__(cuda::block_threads)
    squares_kernel(Buffers<T> buffers, std::size_t size, StepInputs inputs, Squares* totals) {
  if (inputs.is_left_out()) return;
  cuda::chunk_totals(size, Squares{0, 0}, Layer(buffers, inputs), AddSquares(), totals);
}

template <typename Layer>
__global__ void __launch_bounds__(cuda::block_threads)
    scale_kernel(std::size_t chunks, const Squares* totals, const double* constants,
                 double* scale) {
  const auto squares = cuda::total_of_chunks(chunks, Squares{0, 0}, totals, AddSquares());
  if (threadIdx.x == 0) *scale = Layer::scale(squares, constants);
}

template <typename T>
Buffers<T> buffers_of(const FlatSlice<T>& slice) {
  return {slice.parameters.data(),
          slice.gradients.data(),
          {slice.state[0].data(), slice.state[1].data(), slice.state[2].data()}};
}

// In the workspace lie the scale, and then the totals of the chunks.
template <typename Layer, typename T>
const double* layer_scale(const FlatSlice<T>& slice, const DeviceUpdate& device) {
  const std::size_t size = slice.parameters.size();
  auto* const scale = reinterpret_cast<double*>(device.workspace.data());
  if (size == 0) return scale;
  auto* const totals = reinterpret_cast<Squares*>(device.workspace.data() + sizeof(Squares));
  const StepInputs inputs(device, nullptr);
  const std::size_t chunks = reduction::chunks_of(size);
  cuda::launch("optim", Layer::name, squares_kernel<Layer, T>, cuda::blocks_for(chunks, 1),
               cuda::block_threads, device.stream, buffers_of(slice), size, inputs, totals);
  cuda::launch("optim", Layer::name, scale_kernel<Layer>, 1, cuda::block_threads, device.stream,
               chunks, totals, inputs.constants, scale);
  return scale;
}

}  // namespace

template <typename Step>
void run_steps_on_device(const FlatSlice<typename Step::Element>& slice, const DeviceUpdate& device,
                         const double* scale) {
  using T = typename Step::Element;
  const std::size_t size = slice.parameters.size();
  if (size == 0) return;
  const Buffers<T> buffers = buffers_of(slice);
  const auto cut = cut_of<Step>(buffers, size);
  cuda::launch("optim", name_of<Step>, steps_kernel<Step, T>, cut.blocks(), cuda::block_threads,
               device.stream, buffers, cut, StepInputs(device, scale));
}

template <typename T>
const double* lars_scale_on_device(const FlatSlice<T>& slice, const DeviceUpdate& device) {
  return layer_scale<LarsLayer<T>>(slice, device);
}

template <typename T>
const double* lamb_scale_on_device(const FlatSlice<T>& slice, const DeviceUpdate& device) {
  return layer_scale<LambLayer<T>>(slice, device);
}

KOLO_INSTANTIATE_DEVICE_KERNELS

}  // namespace kolo::optim
