#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// A machine that ranks are started on, and how many.
struct Host {
  std::string name;
  int slots = 1;

  bool operator==(const Host&) const = default;
};

// "a:2,b:4"; a name alone has one slot. InputError says which part is wrong.
[[nodiscard]] std::vector<Host> parse_hosts(std::string_view text);

// A file with one host a line: "a:2", or "a slots=2" as for Open MPI; from # on a comment.
[[nodiscard]] std::vector<Host> read_hostfile(const std::filesystem::path& file);

// A scheduler's list of a job's hosts (PBS_NODEFILE): a line for each slot, so a host may come
// several times; in the order of their first lines.
[[nodiscard]] std::vector<Host> read_nodefile(const std::filesystem::path& file);

// So many ranks as evenly as possible over these hosts, whatever slots they have; hosts that get
// none are left out.
[[nodiscard]] std::vector<Host> spread_evenly(std::vector<Host> hosts, int ranks);

// Of all hosts.
[[nodiscard]] int total_slots(const std::vector<Host>& hosts);
[[nodiscard]] int most_slots(const std::vector<Host>& hosts);

// "a:2,b:4"
[[nodiscard]] std::string to_string(const std::vector<Host>& hosts);

}  // namespace kolo
