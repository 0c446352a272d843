#pragma once

#include <filesystem>
#include <string_view>

namespace kolo {

// InputError unless a file can be written there, before any work is done for it. `what` names the
// command and option: "timeline: --output".
void require_writable(std::string_view what, const std::filesystem::path& file);

}  // namespace kolo
