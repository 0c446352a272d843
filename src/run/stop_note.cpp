#include "run/stop_note.h"

#include <random>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/run/launch_environment.h"

namespace kolo {

std::string new_stop_note() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

void leave_stop_note(const RunFolder& folder) {
  const auto text = environment_variable(stop_note_variable);
  if (!text || text->empty()) return;
  try {
    write_file_atomically(folder.stop_note(), *text);
  } catch (const Error&) {
    // The checkpoint is there all the same; only the job's status will not say so.
  }
}

bool take_stop_note(const RunFolder& folder, const std::string& text) {
  const auto file = folder.stop_note();
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  try {
    if (read_text_file(file) != text) return false;
  } catch (const Error&) {
    return false;
  }
  std::filesystem::remove(file, error);  // one that stays is another job's to the next
  return true;
}

}  // namespace kolo
