#include "kolo/layout/mesh_shape.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

std::size_t index_of(MeshAxis axis) {
  return static_cast<std::size_t>(axis);
}

// A length as a configuration names it, for messages.
struct Factor {
  std::string text;  // "spatial [2,1,1]"
  std::int64_t ranks = 1;
};

void require_positive(std::string_view key, std::int64_t value) {
  if (value >= 1) return;
  throw InputError(fmt::format("parallel: {} is {}, expected 1 or more", key, value));
}

void require_lengths(const MeshRequest& request) {
  if (request.spatial.size() > spatial_axes.size()) {
    throw InputError(fmt::format("parallel: spatial [{}] has {} axes, expected at most {}",
                                 fmt::join(request.spatial, ","), request.spatial.size(),
                                 spatial_axes.size()));
  }
  for (const auto length : request.spatial) {
    if (length >= 1) continue;
    throw InputError(fmt::format("parallel: spatial is [{}], expected 1 or more along each axis",
                                 fmt::join(request.spatial, ",")));
  }
  require_positive("pipeline", request.pipeline);
  require_positive("tensor", request.tensor);
  if (request.data != -1 && request.data < 1) {
    throw InputError(fmt::format(
        "parallel: data is {}, expected 1 or more, or -1 for what the others leave", request.data));
  }
}

// Fixed factors above 1, in the order of a configuration.
std::vector<Factor> fixed_factors(const MeshRequest& request) {
  std::vector<Factor> factors;
  const auto add = [&factors](std::string text, std::int64_t ranks) {
    if (ranks > 1) factors.push_back({std::move(text), ranks});
  };
  add(fmt::format("data {}", request.data), request.data);
  add(fmt::format("spatial [{}]", fmt::join(request.spatial, ",")),
      checked_product(std::span<const std::int64_t>(request.spatial)));
  add(fmt::format("pipeline {}", request.pipeline), request.pipeline);
  add(fmt::format("tensor {}", request.tensor), request.tensor);
  return factors;
}

std::int64_t product_of(std::span<const Factor> factors) {
  std::int64_t product = 1;
  for (const auto& factor : factors) product = checked_multiply(product, factor.ranks);
  return product;
}

std::string names_of(std::span<const Factor> factors) {
  std::vector<std::string> names;
  for (const auto& factor : factors) names.push_back(factor.text);
  return names.empty() ? "data 1" : join(names, " x ");
}

// Throws that the factors need another number of ranks.
[[noreturn]] void refuse_ranks(int ranks, std::span<const Factor> factors,
                               const std::string& needed) {
  throw InputError(fmt::format("parallel: {} rank{}, but {} takes {}", ranks, ranks == 1 ? "" : "s",
                               names_of(factors), needed));
}

int data_length(int ranks, const MeshRequest& request) {
  std::vector<Factor> factors;
  std::int64_t fixed = 0;
  try {
    factors = fixed_factors(request);
    fixed = product_of(factors);
  } catch (const Error& error) {
    throw InputError(
        fmt::format("parallel: more ranks than can be counted are asked for: {}", error.what()));
  }
  if (request.data == -1) {
    if (ranks % fixed == 0) return narrow<int>(ranks / fixed);
    const auto below = ranks / fixed * fixed;
    refuse_ranks(
        ranks, factors,
        fmt::format("a multiple of {}; start {}{} ranks", fixed,
                    below > 0 ? fmt::format("{} or ", below) : "", checked_add(below, fixed)));
  }
  if (fixed == ranks) return narrow<int>(request.data);
  const auto others = fixed / request.data;
  refuse_ranks(
      ranks, factors,
      fmt::format(
          "{}; start {} rank{}{}", fixed, fixed, fixed == 1 ? "" : "s",
          ranks % others == 0 ? fmt::format(", or set data to {} or -1", ranks / others) : ""));
}

}  // namespace

MeshShape::MeshShape(int ranks, const MeshRequest& request)
    : ranks_(ranks), spatial_count_(request.spatial.size()) {
  if (ranks < 1)
    throw Error(fmt::format("parallel: a mesh of {} ranks, expected 1 or more", ranks));
  require_lengths(request);
  lengths_.fill(1);
  // The first, because it checks that the others fit.
  lengths_[index_of(MeshAxis::data)] = data_length(ranks, request);
  lengths_[index_of(MeshAxis::pipe)] = narrow<int>(request.pipeline);
  for (std::size_t i = 0; i < request.spatial.size(); ++i) {
    lengths_[index_of(spatial_axes[i])] = narrow<int>(request.spatial[i]);
  }
  lengths_[index_of(MeshAxis::tensor)] = narrow<int>(request.tensor);
}

int MeshShape::length(MeshAxis axis) const {
  return lengths_[index_of(axis)];
}

int MeshShape::length(std::span<const MeshAxis> axes) const {
  int product = 1;
  for (const auto axis : axes) product *= length(axis);
  return product;
}

MeshCoordinates MeshShape::coordinates_of(int rank) const {
  if (rank < 0 || rank >= ranks_)
    throw Error(fmt::format("parallel: rank {} of a mesh of {} ranks", rank, ranks_));
  MeshCoordinates coordinates{};
  for (std::size_t axis = mesh_axes; axis-- > 0;) {
    coordinates[axis] = rank % lengths_[axis];
    rank /= lengths_[axis];
  }
  return coordinates;
}

int MeshShape::rank_of(const MeshCoordinates& coordinates) const {
  int rank = 0;
  for (std::size_t axis = 0; axis < mesh_axes; ++axis) {
    if (coordinates[axis] < 0 || coordinates[axis] >= lengths_[axis]) {
      throw Error(fmt::format("parallel: coordinates [{}] are outside a mesh of [{}]",
                              fmt::join(coordinates, ","), fmt::join(lengths_, ",")));
    }
    rank = rank * lengths_[axis] + coordinates[axis];
  }
  return rank;
}

SplitKey MeshShape::split_of(int rank, std::span<const MeshAxis> axes) const {
  const auto coordinates = coordinates_of(rank);
  SplitKey split;
  for (std::size_t axis = 0; axis < mesh_axes; ++axis) {
    const bool is_along = std::ranges::find(axes, static_cast<MeshAxis>(axis)) != axes.end();
    auto& number = is_along ? split.key : split.colour;
    number = number * lengths_[axis] + coordinates[axis];
  }
  return split;
}

std::string MeshShape::describe() const {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, MeshAxis axis) {
    if (length(axis) > 1) parts.push_back(fmt::format("{} {}", name, length(axis)));
  };
  add("pipeline", MeshAxis::pipe);
  add("data", MeshAxis::data);
  if (length(spatial_axes) > 1) {
    const auto lengths = std::span(lengths_).subspan(index_of(MeshAxis::spatial0), spatial_count_);
    parts.push_back(fmt::format("spatial [{}]", fmt::join(lengths, ",")));
  }
  add("tensor", MeshAxis::tensor);
  return parts.empty() ? "data 1" : join(parts, " x ");
}

}  // namespace kolo
