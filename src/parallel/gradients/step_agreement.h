#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"

namespace kolo {

// What the ranks tell each other once per step, in one small all-reduce after the last bucket:
// whether all is well with everybody, whether the same parameters are frozen, and, where asked for,
// which parameters somebody has used. Since every rank sees the same answer, all of them fail, or
// none does.
class StepAgreement {
 public:
  explicit StepAgreement(std::size_t parameters) : used_(parameters) {}

  // This rank's part, before run().
  void begin(bool with_usage);
  void set_used(std::size_t parameter, bool is_used) { used_[parameter] = is_used ? 1 : 0; }
  // What is wrong on this rank; empty: nothing.
  void set_problem(std::string problem) { problem_ = std::move(problem); }
  // What must be equal everywhere, and how it is described where it is not.
  void set_setup(std::uint64_t fingerprint, std::string description);

  // Collective. Alone: what it would find with this rank only.
  void run(const Communicator& communicator);
  void run_alone();

  // What came of it.
  [[nodiscard]] const std::string& error() const { return error_; }  // empty: all is well
  [[nodiscard]] bool is_used(std::size_t parameter) const { return used_[parameter] != 0; }

 private:
  bool with_usage_ = false;
  std::vector<std::uint8_t> used_;
  std::string problem_;
  std::uint64_t setup_ = 0;
  std::string description_;
  std::vector<std::uint8_t> message_;  // kept for its memory
  std::string error_;
};

}  // namespace kolo
