#include "run/launch/launch_advice.h"

#include <algorithm>

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/statvfs.h>

#include "base/file_failure.h"
#include "kolo/base/clock.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"
#include "run/launch/child.h"

namespace kolo {

NameLookup look_up(const std::string& name, std::chrono::milliseconds limit) {
  const Stopwatch stopwatch;
  const bool has_ended = probe({.argv = {"getent", "ahosts", name}}, limit).status.has_value();
  const double seconds = stopwatch.seconds();
  // getent may be missing; the look-up then counts as ended.
  return {name, seconds, has_ended || seconds < std::chrono::duration<double>(limit).count()};
}

std::vector<NameLookup> look_up_own_names(std::chrono::milliseconds limit) {
  std::vector<NameLookup> lookups = {look_up("localhost", limit)};
  if (const auto own = host_name(); own != "localhost") lookups.push_back(look_up(own, limit));
  return lookups;
}

std::string describe_slow_names(const std::vector<NameLookup>& lookups) {
  std::vector<std::string> texts;
  for (const auto& lookup : lookups) {
    if (!lookup.is_slow()) continue;
    texts.push_back(fmt::format("{} took {}{:.1f} s", lookup.name,
                                lookup.has_ended ? "" : "more than ", lookup.seconds));
  }
  return texts.empty() ? std::string() : "looking up " + join(texts, ", ");
}

std::string advice_on_names(const std::vector<NameLookup>& lookups) {
  std::string names;
  for (const auto& lookup : lookups)
    if (lookup.is_slow()) names += " " + lookup.name;
  return names.empty() ? names : "add a line to /etc/hosts: 127.0.0.1" + names;
}

std::optional<SharedMemoryFolder> examine_shared_memory(const std::filesystem::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
  const double unit = static_cast<double>(info.f_frsize);
  return SharedMemoryFolder{unit * static_cast<double>(info.f_blocks),
                            unit * static_cast<double>(info.f_bavail)};
}

std::vector<std::string> network_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  std::vector<std::string> names;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if ((each->ifa_flags & IFF_UP) != 0 && std::ranges::find(names, each->ifa_name) == names.end())
      names.emplace_back(each->ifa_name);
  }
  ::freeifaddrs(first);
  return names;
}

LaunchConditions examine_conditions(const LaunchRequest& request, bool are_here,
                                    std::chrono::milliseconds limit) {
  return {.ranks = request.ranks,
          .slots = total_slots(request.hosts),
          .are_here = are_here,
          .shared_memory = examine_shared_memory(),
          .file_size_limit = file_size_limit(),
          .names = look_up_own_names(limit)};
}

std::vector<std::string> usual_reasons(const LaunchConditions& conditions) {
  std::vector<std::string> reasons;
  const double needed = conditions.ranks * shared_memory_per_rank;
  const auto bytes = [](double number) { return format_bytes(static_cast<std::uint64_t>(number)); };
  if (conditions.are_here && !conditions.shared_memory) {
    reasons.emplace_back("there is no /dev/shm, in which ranks share memory: mount a tmpfs on it");
  } else if (conditions.are_here && conditions.shared_memory->free < needed) {
    reasons.push_back(fmt::format(
        "/dev/shm has {} free, and MPI takes up to {} there for {} ranks: mount -o remount,size=1g "
        "/dev/shm, or docker run --shm-size=1g",
        bytes(conditions.shared_memory->free), bytes(needed), conditions.ranks));
  }
  if (const auto slow = describe_slow_names(conditions.names); !slow.empty())
    reasons.push_back(fmt::format("{}: {}", slow, advice_on_names(conditions.names)));
  if (conditions.slots > 0 && conditions.slots < conditions.ranks)
    reasons.push_back(fmt::format("{} ranks on hosts with {}: give the hosts more slots",
                                  conditions.ranks, counted(conditions.slots, "slot")));
  constexpr std::uint64_t little = std::uint64_t{64} << 20;
  if (conditions.file_size_limit && *conditions.file_size_limit < little)
    reasons.push_back(describe_file_size_limit(*conditions.file_size_limit) +
                      ", which memory that ranks share comes under, too: ulimit -f unlimited");
  return reasons;
}

}  // namespace kolo
