#pragma once

#include <string>
#include <vector>

#include "kolo/nn/loss.h"
#include "settings/choice_reader.h"

// Entries of the catalogue of losses. An entry is a struct of settings with a visit() for its keys
// and
//   LossFunction make() const;
// and, where it needs them, check() and complete() (see set_settings) and
//   LossFunction make_for_validation() const;    unless it is the same
namespace kolo::losses {

template <ConfigStruct T>
[[nodiscard]] LossEntry entry_of(const std::string& name, const std::string& description,
                                 const std::vector<std::string>& aliases = {}) {
  LossEntry entry{{.name = name, .description = description, .aliases = aliases}};
  set_settings<T>(entry);
  entry.make = [](const OwnSettings& own) { return own.as<T>().make(); };
  entry.make_for_validation = entry.make;
  if constexpr (requires(const T& settings) { settings.make_for_validation(); }) {
    entry.make_for_validation = [](const OwnSettings& own) {
      return own.as<T>().make_for_validation();
    };
  }
  return entry;
}

}  // namespace kolo::losses
