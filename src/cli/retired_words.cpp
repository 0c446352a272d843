#include "cli/retired_words.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kolo {

namespace {

constexpr std::pair<std::string_view, std::string_view> retired_words[] = {
    {"reference",
     "is no command any more; kolo sweep CONFIG seed=1,2,3 --target NUMBER holds trainings against "
     "a published number"},
    {"train -d", "several ranks always work together; leave it out"},
    {"train --distributed", "several ranks always work together; leave it out"},
    {"train --enable_apex", "kolo's optimizers are fused in any case; leave it out"},
    {"train --enable_jit", "kolo's networks are compiled in any case; leave it out"},
    {"train --disable_broadcast_buffers",
     "steps send no buffers in any case, validations take rank 0's; leave it out"},
    {"train --enable_manual_profiling", "use --timeline"},
    {"train --noddp",
     "ranks that don't average their gradients train networks of their own; kolo bench --profile "
     "tells what communication costs"},
    {"train --enable_benchy", "kolo bench FILE measures loading and training, apart and together"},
    {"train --interactive", "kolo eval RUN measures what was trained, kolo report RUN shows how"},
    {"train --yaml_config", "the configuration's file is named without an option"},
    {"train --run_num", "runs are told apart by their folders: --output DIR"},
    {"doctor --tune", "kernels of convolutions are chosen by rules; there is nothing to tune"},
    {"report --figures", "kolo-plot draws figures for papers"},
    {"report --format", "kolo-plot draws figures for papers"},
    {"eval --format", "pictures are PNG"},
    {"scale --simulate", "kolo-simulate (extras/simulate) predicts from a study"},
    {"scale --network", "kolo-simulate (extras/simulate) predicts from a study"},
    {"scale --all-reduce", "kolo-simulate (extras/simulate) predicts from a study"}};

}  // namespace

std::string_view retired_word(std::string_view name) {
  const auto found =
      std::ranges::find(retired_words, name, [](const auto& word) { return word.first; });
  return found == std::end(retired_words) ? std::string_view() : found->second;
}

}  // namespace kolo
