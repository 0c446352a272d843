#include <algorithm>

#include "comm/transfers/node_line.h"
#include "kolo/base/checked.h"

namespace kolo {

void NoteRing::write(const TransferNote& note) {
  const auto place = written.load(std::memory_order_relaxed);
  notes[place % places] = note;
  written.store(place + 1, std::memory_order_release);
}

bool NoteRing::take(TransferNote& note, bool& was_full) {
  const auto place = taken.load(std::memory_order_relaxed);
  const auto there = written.load(std::memory_order_acquire) - place;
  if (there == 0) return false;
  was_full = there == places;
  note = notes[place % places];
  taken.store(place + 1, std::memory_order_release);
  return true;
}

namespace {

constexpr std::size_t flags_bytes = 64;
static_assert(NodeMailbox::slots * sizeof(std::atomic<std::uint32_t>) <= flags_bytes);

// All slots together are a quarter of what collectives have.
std::size_t slot_bytes_of(std::size_t staging_bytes) {
  return std::max<std::size_t>(staging_bytes / 4 / NodeMailbox::slots / 64 * 64, 64);
}

}  // namespace

NodeMailbox::NodeMailbox(std::byte* memory, int ranks, std::size_t staging_bytes)
    : memory_(memory),
      ranks_(static_cast<std::size_t>(ranks)),
      slot_bytes_(slot_bytes_of(staging_bytes)) {}

std::size_t NodeMailbox::bytes_for(int ranks, std::size_t staging_bytes) {
  return sizeof(Bell) + checked_multiply(static_cast<std::size_t>(ranks), sizeof(NoteRing)) +
         flags_bytes + slots * slot_bytes_of(staging_bytes);
}

Bell& NodeMailbox::bell() const {
  return *reinterpret_cast<Bell*>(memory_);
}

NoteRing& NodeMailbox::ring_from(int local_rank) const {
  return reinterpret_cast<NoteRing*>(memory_ + sizeof(Bell))[local_rank];
}

std::atomic<std::uint32_t>& NodeMailbox::is_full(std::size_t slot) const {
  std::byte* const flags = memory_ + sizeof(Bell) + ranks_ * sizeof(NoteRing);
  return reinterpret_cast<std::atomic<std::uint32_t>*>(flags)[slot];
}

std::byte* NodeMailbox::slot(std::size_t slot) const {
  return memory_ + sizeof(Bell) + ranks_ * sizeof(NoteRing) + flags_bytes + slot * slot_bytes_;
}

}  // namespace kolo
