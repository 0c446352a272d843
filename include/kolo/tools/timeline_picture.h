#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kolo {

// One step of a timeline as an SVG picture: a row for every thread of every rank, time in
// milliseconds from the step's beginning on the first rank, nested spans below each other. For
// documents and slides; a browser's viewers show the whole.
//
// `file`: of all ranks, as merge_timelines() writes it, or of one. `step`: its number; 0: one from
// the middle, when caches are warm. Reads the file line by line, twice.
//
// InputError: the file can't be read, is no timeline, or has no such step (it names those it has).
[[nodiscard]] std::string timeline_picture(const std::filesystem::path& file, std::int64_t step);

}  // namespace kolo
