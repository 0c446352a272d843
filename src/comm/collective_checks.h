#pragma once

#include <span>

#include "kolo/comm/data_type.h"
#include "kolo/comm/topology.h"

// The arguments of collectives, checked once for all back ends: Error where a rank alone can see
// that they are wrong.
namespace kolo {

void check_all_reduce(const Buffer& buffer, ReduceOp op);
void check_broadcast(const Buffer& buffer, int root, int size);
void check_all_gather(const ConstBuffer& input, const Buffer& output, int size);
void check_all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                             std::span<const std::int64_t> counts, const Topology& topology);
void check_reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op, int size);
void check_all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                      const Buffer& output, std::span<const std::int64_t> receive_counts, int size);
void check_subset(std::span<const int> ranks, int size);

}  // namespace kolo
