#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "kolo/base/host_device.h"

// The order in which a CUDA device adds up many terms: one for all devices and numbers of threads,
// so that reruns and ranks get the same bits. Terms are cut into chunks. Each lane, a thread of a
// block, adds every 256th term of a chunk, one after the other; then the upper half of the lanes is
// added to the lower, until one is left. The chunks' totals are added up as if they were the terms
// of one chunk.
namespace kolo::reduction {

constexpr std::size_t lanes = 256;
constexpr std::size_t chunk_terms = 4096;

KOLO_HOST_DEVICE constexpr std::size_t chunks_of(std::size_t terms) {
  return terms / chunk_terms + (terms % chunk_terms != 0 ? 1 : 0);
}

// Sum of a lane's terms from begin to end. `none` is the value of no terms.
template <typename Value, typename Term, typename Add>
KOLO_HOST_DEVICE inline Value lane_total(std::size_t begin, std::size_t end, std::size_t lane,
                                         Value none, const Term& term, const Add& add) {
  Value total = none;
  for (std::size_t i = begin + lane; i < end; i += lanes) total = add(total, term(i));
  return total;
}

// The same on the host.

template <typename Value, typename Term, typename Add>
Value chunk_total(std::size_t begin, std::size_t end, Value none, const Term& term,
                  const Add& add) {
  std::array<Value, lanes> totals;
  for (std::size_t lane = 0; lane < lanes; ++lane)
    totals[lane] = lane_total(begin, end, lane, none, term, add);
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane)
      totals[lane] = add(totals[lane], totals[lane + half]);
  }
  return totals[0];
}

template <typename Value, typename Term, typename Add>
Value total(std::size_t terms, Value none, const Term& term, const Add& add) {
  std::vector<Value> totals;
  for (std::size_t begin = 0; begin < terms; begin += chunk_terms) {
    const std::size_t end = begin + chunk_terms < terms ? begin + chunk_terms : terms;
    totals.push_back(chunk_total(begin, end, none, term, add));
  }
  const auto total_of = [&](std::size_t chunk) { return totals[chunk]; };
  return chunk_total(std::size_t{0}, totals.size(), none, total_of, add);
}

}  // namespace kolo::reduction
