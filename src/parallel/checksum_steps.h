#pragma once

#include <cstddef>
#include <cstdint>

#include "kolo/base/host_device.h"

// What a checksum is made of, on the host (kernels.cpp) and on CUDA devices (cuda/flat_kernels.cu).
// Bytes are cut into pieces; of more than one, the checksum is that of the pieces' checksums, in
// their order. A piece is read in rows of a word for each lane, the last filled up with zeros;
// every lane makes a hash of its words, and from those and the number of bytes comes the piece's
// checksum.
namespace kolo::parallel {

constexpr std::size_t checksum_piece_bytes = std::size_t{1} << 17;

// Hashes of 32 bits side by side, as many as keep the widest vectors' multipliers busy. They begin
// as the number of the lane.
constexpr std::size_t checksum_lanes = 128;

// Both factors of the step can be undone, so a lane never loses a difference again. The constants
// are those of MurmurHash3's finalization (Appleby, in the public domain).
KOLO_HOST_DEVICE inline std::uint32_t with_word(std::uint32_t lane, std::uint32_t word) {
  const std::uint32_t value = (lane ^ word) * 0x85ebca6bU;
  return value ^ (value >> 15);
}

KOLO_HOST_DEVICE inline std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

// What a lane adds to the piece's sum: in any order, so none waits for another.
KOLO_HOST_DEVICE inline std::uint64_t lane_term(std::uint32_t value, std::uint64_t lane) {
  return mix(lane << 32 | value);
}

KOLO_HOST_DEVICE inline std::uint64_t checksum_of_lanes(std::uint64_t sum, std::uint64_t bytes) {
  return mix(mix(bytes) ^ sum);
}

}  // namespace kolo::parallel
