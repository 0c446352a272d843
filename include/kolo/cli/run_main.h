#pragma once

#include "kolo/run/run.h"

namespace kolo {

// Body of main() of a program with parts of its own, which has kolo's commands for runs:
//   PROGRAM train CONFIG | eval RUN | predict RUN INPUT | bench CONFIG | scale CONFIG |
//           sweep CONFIG | report RUN...
// with the options of kolo's (PROGRAM help COMMAND). Starts ranks of this program with -n.
[[nodiscard]] int run_main(int argc, char** argv, const RunComponents& components);

}  // namespace kolo
