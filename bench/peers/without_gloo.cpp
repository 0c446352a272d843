#include "peers/gloo.h"

namespace kolo {

std::function<void(std::span<float>)> gloo_all_reduce(int, int) {
  return {};
}

}  // namespace kolo
