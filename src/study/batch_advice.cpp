#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/text.h"
#include "kolo/config/derived_settings.h"
#include "kolo/report/results_table.h"
#include "kolo/study/scale_study.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/history.h"
#include "run/run_folder.h"
#include "study/study_folder.h"

namespace kolo {

namespace {

// The run with the most ranks, of which the noise is known best; null: none is done.
const StudyPoint* measured_point(const Study& study) {
  const StudyPoint* found = nullptr;
  for (const auto& point : study.points) {
    const bool is_measured = point.state == StudyPointState::done && point.ranks > 1;
    if (is_measured && (found == nullptr || point.ranks > found->ranks)) found = &point;
  }
  return found;
}

// After each epoch; what was not measured, or is not finite, is left out.
std::vector<double> noise_scales(const StudyFolder& folder, const StudyPoint& point) {
  std::vector<double> scales;
  const auto history = History::read(folder.run(point).history());
  for (const auto& epoch : history.epochs())
    if (std::isfinite(epoch.gradient_noise_scale)) scales.push_back(epoch.gradient_noise_scale);
  return scales;
}

// The rate follows the batch as a step of plain gradients does; those that are divided by their
// size, as Adam's are, follow with the square root (McCandlish et al., section 2.2 and appendix C;
// Malladi et al., 2022).
bool takes_square_root(const std::string& optimizer) {
  return divides_gradients(optimizer) && optimizer != "lars";
}

// Batches of whole ranks, by factors of 2, from an eighth of what is useful to 8 times that.
std::vector<double> batches_around(double scale, double of_rank) {
  std::vector<double> batches;
  const double last = 8 * std::max(scale, of_rank);
  for (double batch = of_rank; batch <= last; batch *= 2)
    if (batch >= scale / 8) batches.push_back(batch);
  return batches;
}

ResultsTable table_of(double scale, const StudyPoint& point, double rate, bool divides) {
  ResultsTable table{.title = {},
                     .columns = {{"batch of all", true},
                                 {fmt::format("ranks of {}", format_count(point.batch_size)), true},
                                 {"steps", true},
                                 {"samples", true},
                                 {"learning rate", true}}};
  const auto of_rank = static_cast<double>(point.batch_size);
  for (const double batch : batches_around(scale, of_rank)) {
    const auto advice = advise_batch(batch, scale, of_rank * point.ranks);
    const double factor = divides ? std::sqrt(advice.rate) : advice.rate;
    table.rows.push_back({{{format_count(std::llround(batch))},
                           {fmt::format("{:g}", batch / of_rank)},
                           {fmt::format("{:.2f} x", advice.steps)},
                           {fmt::format("{:.2f} x", advice.samples)},
                           {fmt::format("{:.3g}", rate * factor)}}});
  }
  return table;
}

}  // namespace

BatchAdvice advise_batch(double batch, double noise_scale, double measured_batch) {
  // The limits for an infinite scale: a rate in proportion to the batch.
  if (std::isinf(noise_scale)) return {batch, noise_scale, 1, batch / measured_batch};
  const double steps = 1 + noise_scale / batch;
  return {batch, steps, 1 + batch / noise_scale, (1 + noise_scale / measured_batch) / steps};
}

std::string batch_advice(const ScaledStudy& scaled, const StudyRequest& request) {
  const auto* const measured = measured_point(scaled.study);
  if (measured == nullptr)
    return "How large a batch: not known, as no run of two ranks or more is done.\n";
  const auto& point = *measured;
  const StudyFolder folder{scaled.folder};
  const auto scales = noise_scales(folder, point);
  if (scales.empty()) {
    return fmt::format(
        "How large a batch: not known. {} has no gradient noise scale: its steps were too few to "
        "tell gradient from noise, its loss did not fall, or the run was there before --advise was "
        "asked for (another folder, --output, makes it anew).\n",
        folder.run(point).history().string());
  }
  auto source = request.config;
  source.overrides = settings_of(request, scaled.study, point);
  const auto config = load_run_config(source);
  const double rate = make_learning_rate(config, point.ranks, 1).scaled_rate();
  const bool divides = takes_square_root(config.optimizer.name);
  const double scale = scales.back();
  std::vector<std::string> texts;
  for (const double each : scales) texts.push_back(format_count(std::llround(each)));
  return fmt::format(
      "How large a batch: the gradients of {} have a noise scale of {} samples, after each epoch. "
      "It grows while the loss falls; what follows takes the last.\n\n{}\n"
      "steps, samples: to the same loss, as multiples of what the largest and the smallest batches "
      "need. learning rate: from {:.3g} of this run's {} samples per step{}.\n"
      "The largest useful batch is about {} samples ({} rank{} of {}): twice the samples of small "
      "batches, and only half of its steps could be saved by any larger one.\n",
      folder.run(point).path.string(), fmt::join(texts, ", "),
      to_text(table_of(scale, point, rate, divides)), rate,
      format_count(point.batch_size * point.ranks),
      divides ? fmt::format(", with the square root, as {} divides gradients by their size",
                            config.optimizer.name)
              : "",
      format_count(std::llround(scale)),
      std::max<std::int64_t>(1, std::llround(scale / static_cast<double>(point.batch_size))),
      scale < 1.5 * static_cast<double>(point.batch_size) ? "" : "s",
      format_count(point.batch_size));
}

}  // namespace kolo
