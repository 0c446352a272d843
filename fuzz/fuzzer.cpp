// The entry of libFuzzer; KOLO_FUZZ_TARGET names one of fuzz_targets.h.
#include <cstdint>

#include "fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  kolo::fuzz::KOLO_FUZZ_TARGET(std::as_bytes(std::span(bytes, size)));
  return 0;
}
