#pragma once

#include <span>
#include <string>
#include <vector>

#include "kolo/report/run_record.h"
#include "report/event_folder.h"

namespace kolo {

// The curves of a run from its folders' scalars, under kolo's names where a tag is known (see
// meaning_of_tag). Epochs come from a scalar named "epoch", from steps that count epochs, or from
// kolo's own values of each epoch; else they are unknown. Accuracies in percent are made fractions,
// which is said in `notes`.
[[nodiscard]] std::vector<Curve> curves_of_events(std::span<const EventFolder> folders,
                                                  std::vector<std::string>& notes);

}  // namespace kolo
