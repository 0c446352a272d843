#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/base/error.h"

namespace kolo {

// Treatment of a step whose numbers are not finite, the same on all ranks.
enum class NonFiniteStep {
  // Error when the loss of a step is not finite on any rank. Costs nothing, as the losses are added
  // up anyway; what a step does to the parameters shows in the next one's loss, or at the epoch's
  // end.
  stop,
  // Loss and averaged gradients are looked at before they are used, and the step is left out: no
  // parameter or buffer has anything of it. A mean loss has its loss if that is finite. Error after
  // many in a row (FiniteCheck).
  // Costs a pass over the gradients and a copy of the buffers, and the buckets' updates no longer
  // overlap the communication of later ones.
  skip,
  // Goes on, as long as the parameters are finite at the epoch's end; a validation whose loss isn't
  // is never the best.
  ignore
};

constexpr auto enum_names(NonFiniteStep) {
  return std::to_array<EnumName<NonFiniteStep>>({{NonFiniteStep::stop, "stop"},
                                                 {NonFiniteStep::skip, "skip"},
                                                 {NonFiniteStep::ignore, "ignore"}});
}

// Features of a training step that exclude each other: one table, by which configurations and the
// library's options are checked; without LibTorch.
enum class StepFeature : std::uint8_t {
  graphs,
  virtual_ranks,
  accumulation,
  gradient_hook,
  error_feedback,
  sharded,
  parts,  // of a network, on several ranks
  recompute,
  spatial,
  sync_batch_norm,
  loss_scale,
  unused_parameters,
  no_communication,
  frozen,
  skip_non_finite
};

constexpr auto enum_names(StepFeature) {
  using enum StepFeature;
  return std::to_array<EnumName<StepFeature>>({{graphs, "steps recorded as graphs"},
                                               {virtual_ranks, "virtual ranks"},
                                               {accumulation, "accumulation"},
                                               {gradient_hook, "a gradient hook"},
                                               {error_feedback, "error feedback (PowerSGD)"},
                                               {sharded, "a sharded optimizer"},
                                               {parts, "a network in parts"},
                                               {recompute, "recompute"},
                                               {spatial, "samples that ranks share"},
                                               {sync_batch_norm, "synchronized batch norms"},
                                               {loss_scale, "a loss scale"},
                                               {unused_parameters, "unused_parameters"},
                                               {no_communication, "no communication"},
                                               {frozen, "frozen parameters"},
                                               {skip_non_finite, "steps that may be left out"}});
}

struct StepConflict {
  StepFeature feature;
  StepFeature other;
  std::string_view why;
};

namespace step_conflicts {

using enum StepFeature;

inline constexpr std::string_view one_pass = "the passes of a step can't be recorded as one";
inline constexpr std::string_view one_rank = "each part of a step is one rank's";
inline constexpr std::string_view own_hook = "gradients are averaged by a hook of its own";
inline constexpr std::string_view divided = "a rank alone has a part of the step only";

// All pairs, by the first of the two, in the order in which they are told.
inline constexpr auto all = std::to_array<StepConflict>({
    {graphs, parts, one_pass},
    {graphs, recompute, one_pass},
    {graphs, unused_parameters, "which parameters take part is found on the host"},
    {virtual_ranks, spatial, one_rank},
    {virtual_ranks, parts, one_rank},
    {virtual_ranks, sync_batch_norm,
     "a rank computes its parts one after another, and each would wait for the others"},
    {virtual_ranks, graphs, "a step has as many passes as the rank has parts"},
    {virtual_ranks, unused_parameters, own_hook},
    {virtual_ranks, no_communication, divided},
    {accumulation, parts, "a pipeline's batches are cut in parts by parallel.microbatches already"},
    {accumulation, virtual_ranks,
     "a rank makes its steps in the parts of its virtual ranks already"},
    {accumulation, graphs, "a step has several passes"},
    {gradient_hook, virtual_ranks,
     "their gradients are added up in an order of their own, unrounded"},
    {gradient_hook, graphs, "compressed gradients go through the host's hands"},
    {error_feedback, loss_scale,
     "what is carried over to the next step has the loss scale of the last"},
    {error_feedback, skip_non_finite,
     "what is carried over to the next step has a part of the one that is left out"},
    {sharded, virtual_ranks, "gradients are added up by one of the two"},
    {sharded, gradient_hook, "each rank is sent its part of the gradients alone, as it is"},
    {sharded, parts, "a pipeline's ranks have parts of the state already"},
    {sharded, graphs, "ranks gather each other's parameters in a step"},
    {sharded, unused_parameters, own_hook},
    {sharded, no_communication, divided},
    {frozen, parts, "a rank may be left with nothing to train"},
});

}  // namespace step_conflicts

// Features that are in use.
class StepFeatures {
 public:
  StepFeatures(std::initializer_list<std::pair<StepFeature, bool>> features) {
    for (const auto& [feature, is_used] : features) set(feature, is_used);
  }
  // Adds a feature; one that is not used changes nothing.
  void set(StepFeature feature, bool is_used = true) {
    if (is_used) used_.push_back(feature);
  }
  [[nodiscard]] bool has(StepFeature feature) const {
    return std::ranges::find(used_, feature) != used_.end();
  }

 private:
  std::vector<StepFeature> used_;
};

// Pairs of these that exclude each other, in the order of the table.
[[nodiscard]] inline std::vector<StepConflict> conflicts(const StepFeatures& features) {
  std::vector<StepConflict> found;
  for (const auto& conflict : step_conflicts::all)
    if (features.has(conflict.feature) && features.has(conflict.other)) found.push_back(conflict);
  return found;
}

// Describes a pair by names for the two: those of the table or, in a configuration, keys.
[[nodiscard]] inline std::string describe(const StepConflict& conflict, std::string_view feature,
                                          std::string_view other) {
  return std::string(feature) + " can't be had with " + std::string(other) + ": " +
         std::string(conflict.why) + "; leave out one of the two";
}

// Error, which begins with the room's name, for the first pair.
inline void require_no_conflicts(std::string_view room, const StepFeatures& features) {
  for (const auto& each : conflicts(features))
    throw Error(std::string(room) + ": " +
                describe(each, name_of(each.feature), name_of(each.other)));
}

}  // namespace kolo
