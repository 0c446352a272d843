#pragma once

#include "kolo/report/figure.h"

namespace kolo {

// Counts for each line of a figure how many later ones lie on it from end to end, as far as can be
// seen: it is drawn that much wider, or nobody would know that it is there. Beyond two nobody could
// tell them apart by their widths, and bands would hide the rest. The note says so.
void mark_hidden_lines(Figure& figure);

}  // namespace kolo
