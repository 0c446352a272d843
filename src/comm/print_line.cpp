#include "comm/print_line.h"

#include <fmt/format.h>
#include <unistd.h>

namespace kolo {

void print_line(std::string_view message) {
  const std::string line = fmt::format("kolo: {}\n", message);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace kolo
