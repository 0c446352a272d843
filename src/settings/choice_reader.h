#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/settings/choice.h"
#include "settings/section.h"

namespace kolo {

// A name and the keys of the entry that it chooses, as a visit() hands them over:
// field(choice_of(...)). Keys of other entries are refused, unless they are null, or a file's where
// the command line chooses.
struct Choice {
  std::string& name;  // where it is optional, it is given with its default
  OwnSettings& own;
  std::vector<const ChoiceEntry*> entries;
  std::string key = "name";  // under which the name is given
  Presence presence = Presence::required;

  // Entry of this name or alias; nullptr if there is none.
  [[nodiscard]] const ChoiceEntry* find(std::string_view sought) const;
  [[nodiscard]] const ChoiceEntry* find() const { return find(name); }
};

template <typename Entries>
[[nodiscard]] Choice choice_of(std::string& name, OwnSettings& own, const Entries& entries,
                               const std::string& key = "name",
                               Presence presence = Presence::required) {
  Choice choice{name, own, {}, key, presence};
  for (const auto& entry : entries) choice.entries.push_back(&entry);
  return choice;
}

template <ConfigStruct T>
class SettingsHolder final : public OwnSettings::Holder {
 public:
  explicit SettingsHolder(T settings) : settings_(std::move(settings)) {}
  [[nodiscard]] std::unique_ptr<Holder> clone() const override {
    return std::make_unique<SettingsHolder>(settings_);
  }
  [[nodiscard]] const std::type_info& type() const override { return typeid(T); }
  [[nodiscard]] void* value() override { return &settings_; }
  void collect(SettingCollector& collector) override { visit(collector, settings_); }
  void read(SectionReader& reader) override { visit(reader, settings_); }
  void write(TreeWriter& writer) override { visit(writer, settings_); }

 private:
  T settings_;
};

// Fills a ChoiceEntry from a struct with a visit() and, where it needs them, members
//   void check(const RefuseKey& refuse) const;
//   void complete();
template <ConfigStruct T>
void set_settings(ChoiceEntry& entry, T defaults = {}) {
  entry.defaults = OwnSettings(std::make_unique<SettingsHolder<T>>(std::move(defaults)));
  if constexpr (requires(const T& settings, const RefuseKey& refuse) { settings.check(refuse); }) {
    entry.check = [](const OwnSettings& own, const RefuseKey& refuse) {
      own.as<T>().check(refuse);
    };
  }
  if constexpr (requires(T & settings) { settings.complete(); })
    entry.complete = [](OwnSettings& own) { own.as<T>().complete(); };
}

// For entries without keys.
struct NoSettings {};
template <typename Field>
void visit(Field&, NoSettings&) {}

// Entry of this name or alias. InputError for any other; `subject` begins it: "loss: unknown loss".
template <typename Entry>
[[nodiscard]] const Entry& entry_named(const std::vector<Entry>& entries, std::string_view name,
                                       std::string_view subject) {
  std::vector<std::string> known;
  for (const auto& entry : entries) {
    if (entry.name == name || std::ranges::count(entry.aliases, name) > 0) return entry;
    known.push_back(entry.name);
  }
  throw InputError(fmt::format("{} {}, expected one of {}{}", subject, quote(name), join(known),
                               suggestion(name, known)));
}

// The names of an entry's keys.
[[nodiscard]] std::vector<std::string> keys_of(const ChoiceEntry& entry);

}  // namespace kolo
