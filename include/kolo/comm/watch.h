#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace kolo {

// The watch: a thread in every rank that looks, at most once a second, whether ranks wait for one
// another for too long. It costs two readings of the clock and a few stores to memory a collective.
//
// After the warning time the lowest rank whose watch is alive says, in one message, which
// collective waits, which ranks have not come to it, what each of them did last and whether its
// process is stopped or gone; again after twice that time, and so on; and when it went on after
// all. After the limit every rank writes its last collectives to a file, and the job is ended on
// all ranks with status 1; for processes that can't write theirs another rank of the node does. (In
// a session, kolo/comm/session.h, no process is ended: those that wait get CommunicationError.)
//
// Ranks that wait for each other, so that none can go on, end the job after two seconds. While
// ranks wait in initialize(), where there is no watch yet, each says so itself; at the limit it
// ends.
//
// What counts is time in which the watch itself ran. A job that is suspended as a whole and goes on
// later, as schedulers do it, has not waited; a rank that stays behind has the others wait for it.
//
// Ranks of a node read each other's records in shared memory, also of a process that is stopped or
// dead. Between nodes the watches send small messages, which takes MPI's thread level `multiple`;
// with less, or without shared memory then, each node or rank knows only of itself.
struct WatchOptions {
  bool enabled = true;
  std::chrono::duration<double> warning{60};       // 0: never
  std::chrono::duration<double> limit{1800};       // 0: never
  std::filesystem::path folder;                    // for the files; empty: the working directory
  std::function<void(const std::string&)> report;  // a message; empty: to stderr, as "kolo: ..."
};

}  // namespace kolo
