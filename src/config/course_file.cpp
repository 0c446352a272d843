#include "config/settle.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/text.h"
#include "settings/section.h"

namespace kolo {

namespace {

// Keys that kolo has under another name or in a section.
constexpr std::pair<std::string_view, std::string_view> renamed[] = {
    {"lambda_rho", "training.lambda_rho"},
    {"full_scale", "model.full_scale"},
    {"global_batch_size", "training.global_batch_size"},
    {"base_batch_size", "training.base_batch_size"},
    {"Nsamples", "data.n_train"},
    {"Nsamples_val", "data.n_valid"},
    {"num_epochs", "training.n_epochs"},
    {"data_size", "data.crop"},
    {"num_data_workers", "data.workers"},
    {"train_path", "data.train_path"},
    {"val_path", "data.valid_path"},
    {"lr_schedule.scaling", "optimizer.lr_scaling"},
    {"lr_schedule.start_lr", "optimizer.lr"},
    {"lr_schedule.warmup_steps", "training.lr_warmup_steps"}};

// Settings that the tutorial's program has without a key for them.
constexpr std::pair<std::string_view, std::string_view> unsaid[] = {
    {"data.name", "nbody"},           {"model.name", "unet3d"},
    {"optimizer.name", "adam"},       {"optimizer.epsilon", "1.0e-8"},
    {"training.loss", "l1"},          {"training.lr_decay", "cosine_shifted"},
    {"training.lr_warmup_from", "0"}, {"training.lr_warmup_when", "scaled"}};

// Other keys of the tutorial, which are read one by one below.
constexpr std::string_view read_below[] = {
    "weight_init",       "enable_amp",          "enable_apex",
    "enable_benchy",     "enable_jit",          "expdir",
    "lr_schedule",       "data_loader_config",  "box_size",
    "N_out_channels",    "train_path_npy_data", "train_path_npy_label",
    "val_path_npy_data", "val_path_npy_label",  "use_cache"};

// Settings of the tutorial's network, which kolo's has as they are.
constexpr std::pair<std::string_view, std::string_view> of_network[] = {
    {"N_out_channels", "5"},
    {"weight_init.conv_init", "normal"},
    {"weight_init.conv_scale", "0.02"},
    {"weight_init.conv_bias", "0"}};

constexpr std::string_view schedule_keys[] = {"scaling", "start_lr", "end_lr", "warmup_steps"};

class Translation {
 public:
  Translation(const ConfigValue& root, const std::string& name) : root_(root), name_(name) {}

  ConfigValue run() {
    result_.kind = ConfigValue::Kind::mapping;
    result_.origin = root_.origin;
    require_known_keys();
    for (const auto& [key, value] : unsaid) put(key, scalar_value(value, root_.origin));
    for (const auto& [from, to] : renamed)
      if (const auto* const value = find(from)) put(to, *value);
    require_network();
    take_data();
    take_precision();
    take_last_rate();
    if (const auto* const folder = find("expdir"))
      put("output_dir", scalar_value(fmt::format("{}/{}", folder->text, name_), folder->origin));
    return std::move(result_);
  }

 private:
  [[nodiscard]] const ConfigValue* find(std::string_view dotted) const {
    const auto dot = dotted.find('.');
    const auto* const value = root_.find(dotted.substr(0, dot));
    return value == nullptr || dot == std::string_view::npos ? value
                                                             : value->find(dotted.substr(dot + 1));
  }

  void put(std::string_view dotted, ConfigValue value) {
    set_value(result_, dotted, std::move(value));
  }

  void require_known_keys() const {
    const auto is_known = [](std::string_view key) {
      const auto is_key = [&](const auto& pair) { return pair.first == key; };
      return std::ranges::any_of(renamed, is_key) || std::ranges::count(read_below, key) > 0;
    };
    for (const auto& entry : root_.entries) {
      if (is_known(entry.key)) continue;
      refuse(
          entry.value, entry.key,
          "unknown in a file of NERSC's U-Net tutorial, as whose this one is read because of its "
          "Nsamples or lr_schedule.start_lr; kolo's own keys are in sections, as "
          "configs/unet3d.yaml has them");
    }
    const auto* const schedule = root_.find("lr_schedule");
    if (schedule == nullptr) return;
    for (const auto& entry : schedule->entries) {
      if (std::ranges::count(schedule_keys, entry.key) == 0)
        refuse(entry.value, "lr_schedule." + entry.key,
               "unknown; it has scaling, start_lr, end_lr and warmup_steps");
    }
  }

  [[nodiscard]] static double number(const ConfigValue& value, std::string_view key) {
    const auto result = parse_number<double>(value.text);
    if (value.kind != ConfigValue::Kind::scalar || !result)
      refuse(value, key, fmt::format("expected a number, got {}", describe(value)));
    return *result;
  }

  void require_network() const {
    for (const auto& [key, expected] : of_network) {
      const auto* const value = find(key);
      if (value == nullptr || value->text == expected) continue;
      const auto given = parse_number<double>(value->text);
      if (given && given == parse_number<double>(expected)) continue;
      refuse(*value, key,
             fmt::format("kolo's U-Net has {}; leave it out (model.init_from takes other weights)",
                         expected));
    }
  }

  void take_data() {
    if (const auto* const loader = find("data_loader_config")) {
      const std::string_view text = loader->text;
      const bool is_dali = text.starts_with("dali-");
      put("data.mode", scalar_value(is_dali ? text.substr(5) : text, loader->origin));
      if (is_dali) {
        // DALI's readers take pairs of .npy files, of which one names both (docs/use/data.md).
        if (const auto* const file = find("train_path_npy_data")) put("data.train_path", *file);
        if (const auto* const file = find("val_path_npy_data")) put("data.valid_path", *file);
      }
    }
    if (const auto* const box = find("box_size"))
      put("data.box_size",
          box->kind == ConfigValue::Kind::list && !box->items.empty() ? box->items.front() : *box);
    const auto* const cache = find("use_cache");
    if (cache != nullptr && cache->kind != ConfigValue::Kind::nothing && cache->text != "None") {
      refuse(*cache, "use_cache",
             "kolo's job scripts copy data to the nodes (KOLO_STAGE, docs/use/clusters.md); leave "
             "it out");
    }
  }

  // Fused optimizer and compiled layers are kolo's in any case.
  void take_precision() {
    for (const auto* const key : {"enable_amp", "enable_apex", "enable_jit", "enable_benchy"}) {
      const auto* const value = find(key);
      if (value == nullptr) continue;
      const auto text = lower_case(value->text);
      if (text != "true" && text != "false")
        refuse(*value, key, fmt::format("expected true or false, got {}", describe(*value)));
      if (key == std::string_view("enable_amp") && text == "true")
        put("training.precision", scalar_value("bf16", value->origin));
    }
  }

  void take_last_rate() {
    const auto* const last = find("lr_schedule.end_lr");
    const auto* const first = find("lr_schedule.start_lr");
    if (last == nullptr || first == nullptr) return;
    const double start = number(*first, "lr_schedule.start_lr");
    if (!(start > 0)) return;  // which is refused as optimizer.lr
    put("training.lr_final_fraction",
        scalar_value(fmt::format("{}", number(*last, "lr_schedule.end_lr") / start), last->origin));
  }

  const ConfigValue& root_;
  const std::string& name_;
  ConfigValue result_;
};

}  // namespace

bool is_course_file(const ConfigValue& root) {
  if (root.kind != ConfigValue::Kind::mapping) return false;
  if (root.find("data") != nullptr || root.find("model") != nullptr) return false;
  const auto* const schedule = root.find("lr_schedule");
  return root.find("Nsamples") != nullptr ||
         (schedule != nullptr && schedule->find("start_lr") != nullptr);
}

ConfigValue translate_course_file(const ConfigValue& root, const std::string& name) {
  return Translation(root, name).run();
}

}  // namespace kolo
