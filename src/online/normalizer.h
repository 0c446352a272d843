#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/comm/communicator.h"
#include "kolo/sampling/running_statistics.h"
#include "online/sample_store.h"

namespace kolo::online {

// How tensors are normalized, from the statistics of all samples that came to the ranks that train;
// the same bits on all of them. Fixed once enough samples have come.
class Normalizer {
 public:
  explicit Normalizer(const NormalizationConfig& config) : config_(config) {}

  // With all that has come until now; from the first samples on. Collective over those that train,
  // unless nothing is normalized or it is fixed.
  void update(const Communicator& trainers, SampleStore& store);
  [[nodiscard]] const std::shared_ptr<const Normalization>& now() const { return now_; }

  // This rank's statistics, for a checkpoint; and back, merged from those of all ranks that saved
  // where they were others.
  [[nodiscard]] nlohmann::json state(const SampleStore& store) const;
  void restore(const nlohmann::json& states, int rank, int ranks, SampleStore& store);

 private:
  [[nodiscard]] bool is_off() const {
    return config_.inputs == Normalized::none && config_.targets == Normalized::none;
  }
  void make(const std::vector<RunningStatistics>& merged, const SampleShapes& shapes);

  NormalizationConfig config_;
  bool is_fixed_ = false;
  std::shared_ptr<const Normalization> now_ = std::make_shared<Normalization>();
};

// For other ranks.
[[nodiscard]] std::string to_bytes(const Normalization& normalization);
[[nodiscard]] Normalization normalization_from(std::string_view bytes);

}  // namespace kolo::online
