#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kolo/comm/communicator.h"

namespace kolo {

// How ranks that work through batches on their own agree to leave after the same one: each round's
// answers are added up on their way while the next batch is worked on.
class StopAgreement {
 public:
  // `batches`: of this rank; ranks may have different numbers. Collective.
  StopAgreement(Communicator communicator, std::int64_t batches,
                std::function<bool()> stop_requested);

  // After a batch. True: all ranks stop here. Collective for as many batches as every rank has.
  [[nodiscard]] bool stops();
  // Behind the last batch. Collective where stops() never was true.
  [[nodiscard]] bool stops_at_end();

 private:
  struct Round {
    Work work;
    std::shared_ptr<std::int64_t> requests;
  };

  [[nodiscard]] bool is_asked_in_last_round();

  Communicator communicator_;
  std::function<bool()> stop_requested_;
  std::int64_t rounds_;
  std::int64_t round_ = 0;
  Round last_;
};

}  // namespace kolo
