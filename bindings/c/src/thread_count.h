#pragma once

namespace kolo::bindings {

// Gives OpenMP on the calling thread another number of threads, which LibTorch then computes with,
// and takes it back. 0, or a process without OpenMP: nothing.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) noexcept;
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
  ~ThreadCount();

 private:
  int before_ = 0;
};

}  // namespace kolo::bindings
