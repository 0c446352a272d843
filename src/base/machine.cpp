#include "kolo/base/machine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/openmp.h"
#include "kolo/base/error.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "max 100000" or "150000 100000": microseconds of CPU time in a period.
std::optional<double> parse_quota(const std::string& text) {
  std::istringstream words(text);
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> quota_of_group(const fs::path& group, bool version_2) {
  if (version_2) return parse_quota(first_line(group / "cpu.max"));
  return parse_quota(first_line(group / "cpu.cfs_quota_us") + " " +
                     first_line(group / "cpu.cfs_period_us"));
}

struct ControlGroup {
  fs::path path;
  bool version_2 = false;
};

// A line is "hierarchy:controllers:path"; no controllers stand for version 2.
std::optional<ControlGroup> parse_group(const std::string& line, const std::string& controller) {
  const auto first = line.find(':'), second = line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  const auto controllers = line.substr(first + 1, second - first - 1);
  const fs::path path = fs::path(line.substr(second + 1)).relative_path();
  if (controllers.empty()) return ControlGroup{path, true};
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) return ControlGroup{path, false};
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (!(file >> number)) return std::nullopt;  // "max", or not there
  return number;
}

// Number that follows a name in a list of both, a line each.
std::optional<std::int64_t> number_named(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string found;
    std::int64_t number = 0;
    if (words >> found >> number && found == name) return number;
  }
  return std::nullopt;
}

std::optional<std::int64_t> memory_left_in(const fs::path& group, bool version_2) {
  const auto limit = number_in(group / (version_2 ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = number_in(group / (version_2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  const auto idle_files =
      number_named(group / "memory.stat", version_2 ? "inactive_file" : "total_inactive_file");
  return std::max<std::int64_t>(0, *limit - *used + idle_files.value_or(0));
}

int under_quota(int count, const std::optional<double>& quota) {
  if (!quota) return std::max(1, count);
  return std::max(1, std::min(count, static_cast<int>(std::floor(*quota + .01))));
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  return {};
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::optional<std::int64_t> installed_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::nullopt;
  return std::int64_t{pages} * page;
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0)
    throw Error(system_error_text("memory: getrusage", errno));
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) throw Error("memory: /proc/self/statm can't be read");
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

namespace {

// CPUs of this thread, as the kernel has it.
std::vector<int> cpus_of_thread() {
  // The set is made larger until the kernel's fits.
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 4) {
    std::vector<cpu_set_t> set(static_cast<std::size_t>(capacity) / CPU_SETSIZE + 1);
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.data())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

}  // namespace

std::vector<int> allowed_cpus() {
  const auto own = cpus_of_thread(), positions = openmp_cpus();
  std::vector<int> cpus;
  std::ranges::set_union(own, positions, std::back_inserter(cpus));
  return cpus;
}

std::vector<std::vector<int>> allowed_cores() {
  std::vector<std::vector<int>> cores;
  std::map<std::string, std::size_t> positions;
  for (const int cpu : allowed_cpus()) {
    const auto siblings =
        first_line(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    const auto core = siblings.empty() ? fmt::format("cpu {}", cpu) : siblings;
    const auto [position, is_new] = positions.try_emplace(core, cores.size());
    if (is_new) cores.emplace_back();
    cores[position->second].push_back(cpu);
  }
  return cores;
}

namespace {

// Values that `read` finds in the control group `self_cgroup` and in those above it.
template <typename Read>
auto read_groups(const fs::path& root, const std::string& self_cgroup, const char* controller,
                 const Read& read) {
  using Value = typename decltype(read(root, true))::value_type;
  std::vector<Value> found;
  std::istringstream lines(self_cgroup);
  for (std::string line; std::getline(lines, line);) {
    const auto group = parse_group(line, controller);
    if (!group) continue;
    const fs::path base = group->version_2 ? root : root / controller;
    // In a container the path may be the host's and the group itself mounted at the root.
    for (fs::path path = group->path;; path = path.parent_path()) {
      if (const auto value = read(base / path, group->version_2)) found.push_back(*value);
      if (path.empty()) break;
    }
  }
  return found;
}

template <typename Value>
std::optional<Value> least_of(const std::vector<Value>& values) {
  if (values.empty()) return std::nullopt;
  return *std::ranges::min_element(values);
}

std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const fs::path& root, const std::string& self_cgroup) {
  return least_of(read_groups(root, self_cgroup, "cpu", quota_of_group));
}

std::optional<std::int64_t> cgroup_memory_left(const fs::path& root,
                                               const std::string& self_cgroup) {
  return least_of(read_groups(root, self_cgroup, "memory", memory_left_in));
}

std::optional<std::int64_t> cgroup_kills(const fs::path& root, const std::string& self_cgroup) {
  const auto kills =
      read_groups(root, self_cgroup, "memory", [](const fs::path& group, bool version_2) {
        return number_named(group / (version_2 ? "memory.events" : "memory.oom_control"),
                            "oom_kill");
      });
  if (kills.empty()) return std::nullopt;
  return *std::ranges::max_element(kills);
}

OutOfMemoryKills out_of_memory_kills() {
  return {cgroup_kills("/sys/fs/cgroup", own_cgroup()), number_named("/proc/vmstat", "oom_kill")};
}

std::int64_t free_memory_without_processors(const fs::path& nodes) {
  std::int64_t bytes = 0;
  std::error_code none;
  for (const auto& node : fs::directory_iterator(nodes, none)) {
    const auto name = node.path().filename().string();
    if (!name.starts_with("node") || !fs::exists(node.path() / "cpulist", none) ||
        !first_line(node.path() / "cpulist").empty())
      continue;
    std::ifstream file(node.path() / "meminfo");  // lines like "Node 1 MemFree:  123 kB"
    for (std::string word; file >> word;) {
      std::int64_t kibibytes = 0;
      if (word == "MemFree:" && file >> kibibytes) bytes += kibibytes * 1024;
    }
  }
  return bytes;
}

std::optional<std::int64_t> available_memory() {
  constexpr std::int64_t kibibyte = 1024;
  auto available = number_named("/proc/meminfo", "MemAvailable:");
  if (available) {
    const auto of_devices = free_memory_without_processors("/sys/devices/system/node");
    *available = std::max<std::int64_t>(0, *available * kibibyte - of_devices);
  }
  const auto left = cgroup_memory_left("/sys/fs/cgroup", own_cgroup());
  if (!available || (left && *left < *available)) return left;
  return available;
}

int CpuLimits::cpus() const {
  return under_quota(affinity, quota);
}

int CpuLimits::cores() const {
  return under_quota(affinity_cores, quota);
}

CpuLimits detect_cpu_limits() {
  CpuLimits limits;
  const auto cpus = allowed_cpus();
  limits.online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  limits.affinity = std::max<int>(1, static_cast<int>(cpus.size()));
  limits.affinity_cores = std::max<int>(1, static_cast<int>(allowed_cores().size()));
  limits.quota = cgroup_cpu_quota("/sys/fs/cgroup", own_cgroup());
  return limits;
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  // Refusals are harmless: the allocator then works as it always does.
  mallopt(M_MMAP_THRESHOLD, INT_MAX);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

void keep_freed_memory_of_steps() {
#if defined(__GLIBC__)
  constexpr std::size_t just_below = (std::size_t{32} << 20) - (std::size_t{64} << 10);
  void* volatile block = std::malloc(just_below);  // volatile, or the compiler leaves both out
  std::free(block);
#endif
}

void release_freed_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace kolo
