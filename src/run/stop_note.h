#pragma once

#include <string>

#include "run/run_folder.h"

// A file by which rank 0 tells kolo, which has started the ranks, that they have stopped as they
// were asked to, with all saved: where not kolo but mpirun itself was asked, as by a SIGTERM to
// every process of a job, mpirun's status says only that it has ended them.
namespace kolo {

// The environment variable with the text of the note; notes of other texts are other jobs'.
inline constexpr const char* stop_note_variable = "KOLO_STOP_NOTE";

// A text for this job and no other.
[[nodiscard]] std::string new_stop_note();

// Leaves the note, as the last thing that rank 0 does; nothing where kolo has not started the
// ranks.
void leave_stop_note(const RunFolder& folder);

// Tells who has started them whether the note `text` was left, and removes it.
[[nodiscard]] bool take_stop_note(const RunFolder& folder, const std::string& text);

}  // namespace kolo
