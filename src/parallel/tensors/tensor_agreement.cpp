#include "parallel/tensors/tensor_agreement.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/parallel/tensor_buffer.h"

namespace kolo {

namespace {

constexpr std::size_t first_size = 2;
constexpr std::int64_t refused = -1;

// "float32 [*, 4, 5]"
std::string describe(const TensorHeader& header) {
  std::string text = fmt::format("{} [*", name_of(static_cast<DataType>(header[0])));
  const auto end = std::min(header.size(), first_size + static_cast<std::size_t>(header[1]));
  for (std::size_t i = first_size + 1; i < end; ++i) text += fmt::format(", {}", header[i]);
  return text + "]";
}

bool is_compatible(const TensorHeader& a, const TensorHeader& b) {
  return std::equal(a.begin(), a.begin() + first_size, b.begin()) &&
         std::equal(a.begin() + first_size + 1, a.end(), b.begin() + first_size + 1);
}

}  // namespace

TensorHeader header_of(const torch::Tensor& rows) {
  TensorHeader header{};
  header[0] = static_cast<std::int64_t>(data_type_of(rows.scalar_type()));
  header[1] = rows.dim();
  for (std::int64_t i = 0; i < rows.dim(); ++i) {
    const auto place = first_size + static_cast<std::size_t>(i);
    if (place < header.size()) {
      header[place] = rows.size(i);
    } else {
      header.back() = checked_multiply(header.back(), rows.size(i));
    }
  }
  return header;
}

TensorHeader refusal() {
  return {refused, 1};
}

void require_compatible(std::span<const TensorHeader> headers, const char* collective,
                        std::size_t stride) {
  for (std::size_t i = 0; i < headers.size(); i += stride) {
    if (headers[i][0] == refused) {
      throw Error(
          fmt::format("parallel: {}: rank {} passed arguments that don't fit; see its error",
                      collective, i / stride));
    }
  }
  std::size_t first = 0;  // of those that have not joined
  while (first < headers.size() && has_joined(headers[first])) first += stride;
  for (std::size_t i = first; i < headers.size(); i += stride) {
    if (has_joined(headers[i]) || is_compatible(headers[first], headers[i])) continue;
    throw Error(fmt::format(
        "parallel: {}: rank {} passed {}, rank {} {}; the dtype and all dimensions but the first "
        "must be the same on every rank",
        collective, first / stride, describe(headers[first]), i / stride, describe(headers[i])));
  }
}

}  // namespace kolo
