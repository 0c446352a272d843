#pragma once

#include <string>

#include "run/run_folder.h"

// How rank 0 tells kolo, which has started the ranks, that they have stopped as they were asked to,
// with all saved: where not kolo but mpirun itself was asked, as by a SIGTERM to every process of a
// job, mpirun's status says only that it has ended them.
namespace kolo {

// In which the ranks find what they leave; other notes in the folder are of other jobs.
inline constexpr const char* stop_note_variable = "KOLO_STOP_NOTE";

// Of rank 0, as the last thing that it does. Nothing where kolo has not started the ranks.
void leave_stop_note(const RunFolder& folder);

// Of who has started them: whether the note `text` was left; it is gone then.
[[nodiscard]] bool take_stop_note(const RunFolder& folder, const std::string& text);

}  // namespace kolo
