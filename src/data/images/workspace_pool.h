#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace kolo {

// Workspaces for as many threads as read at once, kept from sample to sample.
template <typename Workspace>
class WorkspacePool {
 public:
  // One of the pool's, given back at the end of its life.
  class Loan {
   public:
    explicit Loan(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_.give_back(std::move(workspace_)); }

    Workspace& operator*() { return workspace_; }
    Workspace* operator->() { return &workspace_; }

   private:
    WorkspacePool& pool_;
    Workspace workspace_;
  };

 private:
  Workspace take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++made_);  // so that giving back never fails
      return {};
    }
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(Workspace&& workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

  std::mutex mutex_;
  std::vector<Workspace> free_;
  std::size_t made_ = 0;
};

}  // namespace kolo
