#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace kolo {

// Small messages between ranks beside their collectives, for the watch. Nothing here ever blocks,
// also when the other side is stopped. Used by one thread at a time.
class StatusExchange {
 public:
  struct Message {
    int from = 0;
    std::vector<std::byte> bytes;
  };

  virtual ~StatusExchange() = default;
  // A few kilobytes at most. Dropped when many messages to that rank have not been taken yet.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual std::optional<Message> receive() = 0;
};

}  // namespace kolo
