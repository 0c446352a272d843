#include "parallel/checks/checksum.h"

#include <array>
#include <cstring>

#include "kolo/base/vectorize.h"

namespace kolo::parallel {

namespace {

// Hashes of 32 bits side by side, as many as keep the widest vectors' multipliers busy.
constexpr std::size_t lanes = 128;
using Block = std::array<std::uint32_t, lanes>;

// Both factors of the step can be undone, so a lane never loses a difference again. The constants
// are those of MurmurHash3's finalization (Appleby, in the public domain).
inline void add(Block& state, const std::byte* block) {
  Block words;
  std::memcpy(words.data(), block, sizeof words);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::uint32_t value = (state[lane] ^ words[lane]) * 0x85ebca6bU;
    value ^= value >> 15;
    state[lane] = value;
  }
}

inline std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

}  // namespace

KOLO_VECTORIZE
std::uint64_t checksum(std::span<const std::byte> bytes) {
  Block state;
  for (std::size_t lane = 0; lane < lanes; ++lane) state[lane] = static_cast<std::uint32_t>(lane);
  std::size_t offset = 0;
  for (; offset + sizeof(Block) <= bytes.size(); offset += sizeof(Block))
    add(state, bytes.data() + offset);
  if (offset < bytes.size()) {
    std::array<std::byte, sizeof(Block)> rest{};
    std::memcpy(rest.data(), bytes.data() + offset, bytes.size() - offset);
    add(state, rest.data());
  }
  std::uint64_t result = mix(bytes.size());
  for (const std::uint32_t lane : state) result = mix(result ^ lane);
  return result;
}

}  // namespace kolo::parallel
