#pragma once

#include "kolo/base/error.h"
#include "kolo/config/run_config.h"

namespace kolo {

// What `make` returns; its InputError gets the place and the name of the setting that it is about.
template <typename Make>
auto at_setting(const RunConfig& config, std::string_view key, const Make& make) {
  try {
    return make();
  } catch (const InputError& error) {
    refuse_setting(config, key, error.what());
  }
}

}  // namespace kolo
