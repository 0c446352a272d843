// A profiler as NVTX knows it: a program whose variable NVTX_INJECTION64_PATH names this library
// tells it each range. When the program ends, FAKE_PROFILE gets a line for each name of a range:
// how many began, how many ended, and the name.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <nvtx3/nvToolsExt.h>

namespace {

class Profile {
 public:
  Profile() = default;
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  ~Profile() {
    const char* path = std::getenv("FAKE_PROFILE");
    if (path == nullptr) return;
    std::ofstream file(path);
    for (const auto& [name, counts] : counts_)
      file << counts.began << ' ' << counts.ended << ' ' << name << '\n';
  }

  nvtxRangeId_t begin(const char* name) {
    const std::lock_guard lock(mutex_);
    auto& counts = counts_[name];
    ++counts.began;
    ranges_.push_back(&counts);
    return ranges_.size();
  }
  void end(nvtxRangeId_t range) {
    const std::lock_guard lock(mutex_);
    ++ranges_.at(range - 1)->ended;
  }

 private:
  struct Counts {
    std::int64_t began = 0, ended = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Counts> counts_;
  std::vector<Counts*> ranges_;  // by their number - 1
};

Profile& profile() {
  static Profile one;
  return one;
}

nvtxRangeId_t begin_range(const nvtxEventAttributes_t* attributes) {
  return profile().begin(attributes->message.ascii);
}
void end_range(nvtxRangeId_t range) {
  profile().end(range);
}

}  // namespace

// NVTX calls it before a process's first range, and takes the functions that it puts into the
// table.
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE_RangeEnd) {
    return 0;
  }
  profile();
  *table[NVTX_CBID_CORE_RangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(&begin_range);
  *table[NVTX_CBID_CORE_RangeEnd] = reinterpret_cast<NvtxFunctionPointer>(&end_range);
  return 1;
}
