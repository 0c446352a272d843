#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace kolo {

// The watch: a thread in every rank that looks, at most once a second, whether ranks wait for one
// another for too long. Costs two readings of the clock and a few stores to memory a collective.
//
// After the warning time the lowest rank whose watch is alive says which collective waits, which
// ranks have not come to it, what each of them did last and whether its process is stopped or gone;
// again after twice that time, and so on; and when it went on after all. After the limit every rank
// writes its last collectives to a file, or another of its node does for it, and the job ends with
// status 1. (No process of a session is ended: its waiting ranks get CommunicationError.)
//
// Ranks that wait for each other, so that none can go on, end the job after two seconds. In
// initialize(), where there is no watch yet, each rank says itself that it waits, and ends at the
// limit. Time in which the watch didn't run doesn't count, as in a job that a scheduler suspends.
//
// Ranks of a node read each other's records in shared memory, also of a process that is stopped or
// dead. Between nodes the watches send small messages, which takes MPI's thread level `multiple`;
// with less each node, or rank without shared memory, knows only of itself.
struct WatchOptions {
  bool enabled = true;
  std::chrono::duration<double> warning{60};       // 0: never
  std::chrono::duration<double> limit{1800};       // 0: never
  std::filesystem::path folder;                    // for the files; empty: the working directory
  std::function<void(const std::string&)> report;  // a message; empty: to stderr, as "kolo: ..."
};

}  // namespace kolo
