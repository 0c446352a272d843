#include "kolo/parallel/bucket_plan.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fingerprint.h"
#include "kolo/base/checked.h"
#include "kolo/parallel/object_collectives.h"

namespace kolo {

namespace {

constexpr std::int64_t alignment_bytes = 64;

std::int64_t aligned_count(std::int64_t count, DataType type) {
  const auto unit = alignment_bytes / static_cast<std::int64_t>(size_of(type));
  return checked_multiply(divide_up(count, unit), unit);
}

std::int64_t bytes_of(const Bucket& bucket) {
  return checked_multiply(bucket.count, static_cast<std::int64_t>(size_of(bucket.type)));
}

// Parameters, then buckets; one line each, so that two plans can be compared line by line.
std::vector<std::string> lines_of(const BucketPlan& plan) {
  std::vector<std::string> lines;
  for (const auto& parameter : plan.parameters) lines.push_back(parameter.describe());
  for (const Bucket& bucket : plan.buckets) {
    lines.push_back(fmt::format("a bucket of {} {} and {} parameters", bucket.count,
                                name_of(bucket.type), bucket.entries.size()));
    for (const BucketEntry& entry : bucket.entries)
      lines.back() += fmt::format(" {}", entry.parameter);
  }
  return lines;
}

}  // namespace

std::int64_t ParameterDescription::count() const {
  return checked_product<std::int64_t>(shape);
}

std::string ParameterDescription::names() const {
  return other_names.empty() ? name
                             : fmt::format("{} (also {})", name, fmt::join(other_names, ", "));
}

std::string ParameterDescription::describe() const {
  return fmt::format(
      "{} {} [{}]{}", names(), name_of(type), fmt::join(shape, ", "),
      strides.empty() ? "" : fmt::format(" with strides [{}]", fmt::join(strides, ", ")));
}

std::uint64_t BucketPlan::fingerprint() const {
  return fingerprint_of(fmt::format("{}", fmt::join(lines_of(*this), "\n")));
}

BucketPlan plan_buckets(std::vector<ParameterDescription> parameters, const BucketLimits& limits) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return plan_buckets(std::move(parameters), limits, order);
}

BucketPlan plan_buckets(std::vector<ParameterDescription> parameters, const BucketLimits& limits,
                        std::span<const std::size_t> order) {
  if (limits.first_bytes <= 0 || limits.bytes <= 0) {
    throw Error(
        fmt::format("parallel: bucket sizes of {} and {} bytes; both must be greater than 0",
                    limits.first_bytes, limits.bytes));
  }
  BucketPlan plan;
  plan.parameters = std::move(parameters);
  const auto limit = [&] { return plan.buckets.size() <= 1 ? limits.first_bytes : limits.bytes; };
  for (const std::size_t index : order) {
    const auto& parameter = plan.parameters[index];
    const bool starts_bucket = plan.buckets.empty() || plan.buckets.back().type != parameter.type ||
                               bytes_of(plan.buckets.back()) >= limit();
    if (starts_bucket) plan.buckets.push_back({.type = parameter.type});
    Bucket& bucket = plan.buckets.back();
    bucket.entries.push_back({index, bucket.count, parameter.count()});
    bucket.count = checked_add(bucket.count, aligned_count(parameter.count(), parameter.type));
  }
  for (Bucket& bucket : plan.buckets) {
    bucket.offset_bytes = plan.total_bytes;
    plan.total_bytes = checked_add(plan.total_bytes, bytes_of(bucket));
  }
  return plan;
}

void require_equal_plans(const Communicator& communicator, const BucketPlan& plan) {
  const auto mine =
      static_cast<std::int64_t>(plan.fingerprint() | 1);  // of joined ranks come zeros
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(all));
  const auto first = std::find_if(all.begin(), all.end(), [](auto value) { return value != 0; });
  const auto different = std::find_if(
      first, all.end(), [&](std::int64_t value) { return value != 0 && value != *first; });
  if (different == all.end()) return;
  const auto texts =
      all_gather_bytes(communicator, fmt::format("{}", fmt::join(lines_of(plan), "\n")));
  const auto root = static_cast<std::size_t>(first - all.begin());
  const auto rank = static_cast<std::size_t>(different - all.begin());
  std::istringstream of_root(texts[root]), of_rank(texts[rank]);
  std::string root_has, rank_has;
  do {
    if (!std::getline(of_root, root_has)) root_has = "nothing more";
    if (!std::getline(of_rank, rank_has)) rank_has = "nothing more";
  } while (root_has == rank_has);
  throw Error(
      fmt::format("parallel: the ranks' models differ: rank {} has {}, rank {} has {}; every rank "
                  "must build the same network with the same options",
                  root, root_has, rank, rank_has));
}

}  // namespace kolo
