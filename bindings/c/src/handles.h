#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"
#include "kolo/comm/session.h"
#include "kolo/kolo.h"
#include "kolo/online/online_network.h"
#include "status.h"

// Handles, which C programs hold instead of objects.
namespace kolo::bindings {

// Table of objects by handle. A handle holds the index of a slot and the slot's generation in the
// bits of a pointer that nobody dereferences, so a handle whose object is gone is recognized even
// if its slot is used again. An object lives until the last call that uses it has returned.
// Thread-safe.
template <typename T>
class HandleTable {
 public:
  // `kind`: "network". `maker`: the call that gives such handles.
  HandleTable(const char* kind, const char* maker) : kind_(kind), maker_(maker) {}

  [[nodiscard]] std::uintptr_t add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      slots_.emplace_back();
      free_.reserve(slots_.size());  // so that taking an object out never needs memory
      free_.push_back(slots_.size() - 1);
    }
    const auto index = free_.back();
    free_.pop_back();
    slots_[index].object = std::move(object);
    return (slots_[index].generation << index_bits) | (index + 1);
  }

  // Returns the object; StateError says why there is none.
  [[nodiscard]] std::shared_ptr<T> find(std::uintptr_t handle) const {
    const std::lock_guard lock(mutex_);
    return slots_[index_of(handle)].object;
  }

  // Removes an object; later calls with its handle are told `reason`. StateError as find().
  std::shared_ptr<T> take(std::uintptr_t handle, const char* reason) {
    const std::lock_guard lock(mutex_);
    return take_slot(index_of(handle), reason);
  }

  // Removes all objects that fit.
  template <typename Fits>
  std::vector<std::shared_ptr<T>> take_all(Fits&& fits, const char* reason) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> taken;
    taken.reserve(slots_.size());
    for (std::size_t index = 0; index < slots_.size(); ++index)
      if (slots_[index].object && fits(*slots_[index].object))
        taken.push_back(take_slot(index, reason));
    return taken;
  }

 private:
  struct Slot {
    std::shared_ptr<T> object;
    std::uint64_t generation = 1;
    const char* reason = "";  // why the last object is gone
  };
  static constexpr int index_bits = 24;
  static_assert(sizeof(std::uintptr_t) == 8, "handles need pointers of 64 bits");

  [[nodiscard]] std::size_t index_of(std::uintptr_t handle) const {
    const std::string handle_text = std::string("the ") + kind_ + " handle ";
    if (handle == 0) throw StateError(handle_text + "is null; " + maker_ + " gives one");
    const auto index = (handle & ((std::uint64_t{1} << index_bits) - 1)) - 1;
    const auto generation = handle >> index_bits;
    if (index >= slots_.size() || generation > slots_[index].generation || generation == 0)
      throw StateError(handle_text + "is none that " + maker_ + " has given");
    if (generation < slots_[index].generation)
      throw StateError(handle_text + "is dead: " + slots_[index].reason);
    if (!slots_[index].object)
      throw StateError(handle_text + "is none that " + maker_ + " has given");
    return index;
  }

  std::shared_ptr<T> take_slot(std::size_t index, const char* reason) {
    auto& slot = slots_[index];
    ++slot.generation;
    slot.reason = reason;
    free_.push_back(index);
    return std::exchange(slot.object, nullptr);
  }

  const char* const kind_;
  const char* const maker_;
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
};

struct LivingSession {
  kolo::Session session;
  int rank = 0;
  int threads = 0;  // that calls compute with; 0: as the program's OpenMP
};

struct LivingNetwork {
  std::shared_ptr<LivingSession> session;  // outlives the network
  OnlineNetwork network;
};

struct Handles {
  HandleTable<LivingSession> sessions{"session", "kolo_initialize"};
  HandleTable<LivingNetwork> networks{"network", "kolo_network_create"};
};

// The library's only state besides messages. Never destroyed, so calls during exit() still find it.
[[nodiscard]] Handles& handles();

// StateError unless MPI is initialized and not finalized.
void require_mpi();

[[nodiscard]] inline std::uintptr_t number_of(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

// Agrees whether all ranks can go on. A rank with a `problem` throws it; the others throw a
// CommunicationError that names the first such rank. Collective.
void meet(const Call& call, const Communicator& communicator, const std::exception_ptr& problem);

}  // namespace kolo::bindings
