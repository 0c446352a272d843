#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fake_cuda {

// Meeting point of the ranks of an NCCL communicator, threads or processes of this machine: shared
// memory with a header and a piece of data for each.
class Meeting {
 public:
  static constexpr int most_ranks = 8;
  static constexpr std::size_t piece_bytes = 128 << 10;
  struct Aborted {};  // thrown by a rank that waits, once it has aborted

  // Waits until all `size` ranks are there. `whereabouts`: of the rank's device.
  Meeting(const std::string& name, int rank, int size, const std::string& whereabouts);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // Number of another rank on the same device; -1: there is none.
  [[nodiscard]] int rank_on_same_device() const;
  void abort() { is_aborted_ = true; }

  // All ranks must say the same.
  void compare(const std::string& call);
  // Every rank gives `mine` (a piece at most), and sees what all have given.
  void exchange(
      std::span<const std::byte> mine,
      const std::function<void(const std::function<const std::byte*(int)>& of_rank)>& see);

 private:
  struct Memory;
  void meet();

  int rank_, size_;
  Memory* memory_;
  std::uint32_t round_ = 0;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace fake_cuda
