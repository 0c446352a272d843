#include "train/cuda_waits.h"

#include <c10/cuda/CUDAFunctions.h>

namespace kolo::testing {

void refuse_cuda_waits(bool refuse) {
  c10::cuda::warning_state().set_sync_debug_mode(refuse ? c10::cuda::SyncDebugMode::L_ERROR
                                                        : c10::cuda::SyncDebugMode::L_DISABLED);
}

}  // namespace kolo::testing
