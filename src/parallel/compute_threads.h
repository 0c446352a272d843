#pragma once

namespace kolo::parallel {

// LibTorch computes with so many threads, with as many as OMP_THREAD_LIMIT allows where that is
// less, and with no fewer than that, whatever else OpenMP's variables say.
void set_compute_threads(int threads);

}  // namespace kolo::parallel
