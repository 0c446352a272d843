#pragma once

namespace kolo::testing {

// Whether LibTorch throws where host code would wait for a GPU; nothing in a build without CUDA.
void refuse_cuda_waits(bool refuse);

}  // namespace kolo::testing
