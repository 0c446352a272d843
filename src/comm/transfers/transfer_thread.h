#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/shared_memory/futex.h"

namespace kolo {

class TransferDesk;

// The one thread of a process that posts transfers and polls for them, for all groups: with
// several, Open MPI can lock itself up. Started with the first transfer. It never blocks for one,
// so the communication threads, which do, and the transfers don't keep each other waiting.
class TransferThread {
 public:
  // `bells`: of the ranks that share this one's memory, by rank in the job; the others' are null.
  // Without any, one of its own.
  TransferThread(int job_rank, std::vector<std::shared_ptr<Bell>> bells);
  TransferThread(const TransferThread&) = delete;
  TransferThread& operator=(const TransferThread&) = delete;
  ~TransferThread() { end_thread(); }

  void start();
  void add(const std::shared_ptr<TransferDesk>& desk);
  // It is not in use any more when this returns.
  void remove(const TransferDesk& desk);

  void ring() { own_bell_->ring(); }
  [[nodiscard]] std::shared_ptr<Bell> bell_of(int job_rank) const;

  // Finishes what is pending, and ends the thread; whoever asks for more gets a StateError with
  // this message.
  void close(const std::string& message);
  // The same, but that what is pending fails, with this message too.
  void stop(const std::string& message);

 private:
  struct Round {
    bool has_progress = false;
    std::uint8_t patience = 0;                      // the least patient desk's
    std::vector<std::shared_ptr<const void>> done;  // TransferDesk::take_done()
  };

  void loop();
  void end_thread();
  [[nodiscard]] Round go_round();
  void rest(std::uint32_t heard, std::uint8_t patience, int idle_rounds);
  [[nodiscard]] std::vector<std::shared_ptr<TransferDesk>> desks() const;

  std::vector<std::shared_ptr<Bell>> bells_;
  std::shared_ptr<Bell> own_bell_;
  mutable std::mutex round_;  // held while the thread uses the desks
  std::vector<std::weak_ptr<TransferDesk>> desks_;
  std::mutex starting_;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
};

}  // namespace kolo
