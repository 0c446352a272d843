#include "report/run_readers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kolo {

namespace {

using Entry = std::pair<std::string_view, std::string_view>;

constexpr Entry parts[] = {
    {"train", "training"},  {"training", "training"},     {"tr", "training"},
    {"val", "validation"},  {"valid", "validation"},      {"validation", "validation"},
    {"eval", "validation"}, {"evaluation", "validation"}, {"dev", "validation"},
    {"test", "validation"}, {"testing", "validation"}};

// What is left of a tag without the words for its part and pace.
constexpr Entry quantities[] = {{"loss", "loss"},
                                {"accuracy", "accuracy"},
                                {"acc", "accuracy"},
                                {"acc1", "accuracy"},
                                {"acc_1", "accuracy"},
                                {"top1", "accuracy"},
                                {"top1_accuracy", "accuracy"},
                                {"top1_acc", "accuracy"},
                                {"top_1_accuracy", "accuracy"},
                                {"top_accuracy", "top_accuracy"},
                                {"acc5", "top_accuracy"},
                                {"acc_5", "top_accuracy"},
                                {"top5", "top_accuracy"},
                                {"top5_accuracy", "top_accuracy"},
                                {"top5_acc", "top_accuracy"},
                                {"top_5_accuracy", "top_accuracy"},
                                {"top_k_accuracy", "top_accuracy"},
                                {"lr", "learning_rate"},
                                {"learning_rate", "learning_rate"},
                                {"lr_sgd", "learning_rate"},
                                {"lr_adam", "learning_rate"},
                                {"lr_adamw", "learning_rate"},
                                {"lr_adam_w", "learning_rate"},
                                {"lr_rmsprop", "learning_rate"},
                                {"lr_lamb", "learning_rate"},
                                {"lr_lars", "learning_rate"},
                                {"samples_per_second", "samples_per_second"},
                                {"samples_per_sec", "samples_per_second"},
                                {"images_per_second", "samples_per_second"},
                                {"images_per_sec", "samples_per_second"},
                                {"throughput", "samples_per_second"},
                                {"loss_scale", "loss_scale"},
                                {"data_wait_seconds", "data_wait_seconds"},
                                {"exposed_communication_seconds", "exposed_communication_seconds"}};

// Words that make no other quantity of it.
constexpr std::string_view fillers[] = {"avg",    "average",     "mean",  "running",
                                        "sparse", "categorical", "binary"};
constexpr std::string_view step_words[] = {"step", "steps",     "batch",     "batches",
                                           "iter", "iteration", "iterations"};

template <std::size_t size>
std::string_view found(const Entry (&entries)[size], std::string_view name) {
  const auto entry = std::ranges::find(entries, name, &Entry::first);
  return entry == std::end(entries) ? std::string_view() : entry->second;
}

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
char lower(char c) {
  return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
}

// "Avg loss/trainSet" -> avg, loss, train, set
std::vector<std::string> words_of(std::string_view tag) {
  std::vector<std::string> words;
  char before = ' ';
  for (const char c : tag) {
    const bool is_part = is_lower(c) || is_upper(c) || (c >= '0' && c <= '9');
    const bool was_part = is_lower(before) || is_upper(before) || (before >= '0' && before <= '9');
    if (is_part && (!was_part || (is_lower(before) && is_upper(c)))) words.emplace_back();
    if (is_part) words.back() += lower(c);
    before = c;
  }
  return words;
}

bool has_parts(std::string_view quantity) {
  return quantity == "loss" || quantity == "accuracy" || quantity == "top_accuracy";
}

}  // namespace

std::string_view part_named(std::string_view name) {
  std::string word(name);
  std::ranges::transform(word, word.begin(), lower);
  return found(parts, word);
}

TagMeaning meaning_of_tag(std::string_view tag, std::string_view folder_part) {
  TagMeaning meaning;
  meaning.counts_epochs = tag.starts_with("epoch_");
  std::string_view part;
  std::vector<std::string> rest;
  for (const std::string& word : words_of(tag)) {
    if (const auto named = part_named(word); !named.empty()) {
      part = named;
      meaning.is_test = word.starts_with("test");
    } else if (word == "epoch") {
      meaning.pace = TagMeaning::Pace::epoch;
    } else if (std::ranges::find(step_words, word) != std::end(step_words)) {
      meaning.pace = TagMeaning::Pace::step;
    } else if (std::ranges::find(fillers, word) == std::end(fillers)) {
      rest.push_back(word);
    }
  }
  if (rest.empty()) meaning.is_epoch_number = meaning.pace == TagMeaning::Pace::epoch;
  if (part.empty()) part = folder_part;
  const std::string_view quantity = found(quantities, fmt::format("{}", fmt::join(rest, "_")));
  if (has_parts(quantity)) {
    meaning.quantity = quantity;
    meaning.part = part.empty() ? "training" : part;
  } else if (!quantity.empty() && part != "validation") {
    meaning.quantity = quantity;
  } else {
    meaning.quantity = tag;
    meaning.part = folder_part;
  }
  return meaning;
}

}  // namespace kolo
