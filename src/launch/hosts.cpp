#include "kolo/launch/hosts.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

Host parse_host(std::string_view text, const std::string& where) {
  const auto colon = text.rfind(':');
  Host host{std::string(text.substr(0, colon))};
  bool is_right = !host.name.empty();
  if (colon != text.npos) {
    const auto number = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), host.slots);
    is_right &= error == std::errc{} && end == number.data() + number.size() && host.slots > 0;
  }
  if (!is_right) {
    throw InputError(
        fmt::format("{}: \"{}\" is no host; write NAME:SLOTS, for example node1:4", where, text));
  }
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text) {
  std::vector<Host> hosts;
  while (true) {
    const auto comma = text.find(',');
    hosts.push_back(parse_host(text.substr(0, comma), "--hosts"));
    if (comma == text.npos) return hosts;
    text.remove_prefix(comma + 1);
  }
}

std::vector<Host> read_hostfile(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    throw InputError(fmt::format("--hostfile {}: there is no such file", file.string()));
  std::vector<Host> hosts;
  std::istringstream lines(read_text_file(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots, surplus;
    if (!(words >> name)) continue;
    words >> slots;
    const auto where = fmt::format("{}:{}", file.string(), number);
    const bool is_known = slots.empty() || slots.starts_with("slots=");
    if (!is_known || words >> surplus) {
      throw InputError(fmt::format("{}: \"{}\" is not understood; write NAME:SLOTS or NAME slots=N",
                                   where, is_known ? surplus : slots));
    }
    hosts.push_back(parse_host(slots.empty() ? name : name + ":" + slots.substr(6), where));
  }
  if (hosts.empty())
    throw InputError(fmt::format("--hostfile {}: it names no host", file.string()));
  return hosts;
}

std::vector<Host> read_nodefile(const std::filesystem::path& file) {
  std::vector<Host> hosts;
  std::istringstream words(read_text_file(file));
  for (std::string name; words >> name;) {
    const auto known = std::ranges::find(hosts, name, &Host::name);
    if (known == hosts.end())
      hosts.push_back({name});
    else
      ++known->slots;
  }
  return hosts;
}

std::vector<Host> spread_evenly(std::vector<Host> hosts, int ranks) {
  const int count = narrow<int>(hosts.size());
  for (int i = 0; i < count; ++i)
    hosts[static_cast<std::size_t>(i)].slots = ranks / count + (i < ranks % count ? 1 : 0);
  std::erase_if(hosts, [](const Host& host) { return host.slots == 0; });
  return hosts;
}

int total_slots(const std::vector<Host>& hosts) {
  int sum = 0;
  for (const Host& host : hosts) sum = checked_add(sum, host.slots);
  return sum;
}

int most_slots(const std::vector<Host>& hosts) {
  int most = 0;
  for (const Host& host : hosts) most = std::max(most, host.slots);
  return most;
}

std::string to_string(const std::vector<Host>& hosts) {
  std::vector<std::string> words;
  for (const Host& host : hosts) words.push_back(fmt::format("{}:{}", host.name, host.slots));
  return join(words, ",");
}

}  // namespace kolo
