#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/base/file.h"

// Event files, encoded and decoded by hand: nothing here shares code with kolo or the protobuf
// library.
namespace kolo::testing::events {

template <typename T>
std::string raw(T number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

inline std::string field(int number, std::string_view content) {
  std::string bytes = varint(static_cast<std::uint64_t>(number) << 3 | 2);
  bytes += varint(content.size());
  return bytes += content;
}

inline std::string field(int number, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(value);
}

inline std::string field(int number, double value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 1) + raw(value);
}

inline std::string field(int number, float value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 5) + raw(value);
}

inline std::uint32_t masked_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// A message in its frame.
inline std::string record(std::string_view message) {
  const std::string length = raw(static_cast<std::uint64_t>(message.size()));
  std::string bytes = length + raw(masked_crc32c(length));
  bytes += message;
  return bytes += raw(masked_crc32c(message));
}

// First record of a file.
inline std::string version(double time = 1000) {
  return record(field(1, time) + field(3, std::string_view("brain.Event:2")));
}

// `what`: the event's field beside its time and step.
inline std::string event(std::string_view what, std::int64_t step, double time) {
  std::string message = field(1, time);
  if (step != 0) message += field(2, static_cast<std::uint64_t>(step));
  return record(message += what);
}

// An event with one value of a summary.
inline std::string summary(std::string_view value, std::int64_t step, double time) {
  return event(field(5, field(1, value)), step, time);
}

// As PyTorch, TensorFlow 1 and kolo write a scalar.
inline std::string scalar(std::string_view tag, float value, std::int64_t step,
                          double time = 1000) {
  return summary(field(1, tag) + field(2, value), step, time);
}

// SessionLog START.
inline std::string restart(std::int64_t step, double time = 1000) {
  return event(field(7, field(1, std::uint64_t{1})), step, time);
}

inline std::string_view take_bytes(std::string_view& bytes, std::size_t count) {
  const auto taken = bytes.substr(0, count);
  bytes.remove_prefix(taken.size());
  return taken;
}

template <typename T>
T take(std::string_view& bytes) {
  T number{};
  const auto taken = take_bytes(bytes, sizeof number);
  std::memcpy(&number, taken.data(), taken.size());
  return number;
}

inline std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// A field's number and its content, as it stands in the message.
inline std::pair<int, std::string_view> take_field(std::string_view& message) {
  const auto key = take_varint(message);
  const auto number = static_cast<int>(key >> 3);
  const auto before = message;
  switch (key & 7) {
    case 0:
      (void)take_varint(message);
      return {number, before.substr(0, before.size() - message.size())};
    case 1:
      return {number, take_bytes(message, 8)};
    case 2: {
      const auto size = take_varint(message);
      return {number, take_bytes(message, size)};
    }
    default:
      return {number, take_bytes(message, 4)};
  }
}

struct Scalar {
  std::string tag;
  std::int64_t step = 0;
  float value = 0;
};

// All scalars of a file of kolo's, in its order, up to where it ends or is damaged.
inline std::vector<Scalar> scalars_in(const std::filesystem::path& file) {
  std::vector<Scalar> scalars;
  const auto content = read_text_file(file);
  for (std::string_view rest = content; rest.size() >= 12;) {
    const auto length = take<std::uint64_t>(rest);
    (void)take<std::uint32_t>(rest);
    auto message = take_bytes(rest, length);
    if (message.size() < length || take<std::uint32_t>(rest) != masked_crc32c(message)) break;
    Scalar scalar;
    bool is_scalar = false;
    while (!message.empty()) {
      auto [number, what] = take_field(message);
      if (number == 2) scalar.step = static_cast<std::int64_t>(take_varint(what));
      if (number != 5) continue;
      is_scalar = true;
      auto value = take_field(what).second;
      while (!value.empty()) {
        auto [member, bytes] = take_field(value);
        if (member == 1) scalar.tag = bytes;
        if (member == 2) scalar.value = take<float>(bytes);
      }
    }
    if (is_scalar) scalars.push_back(scalar);
  }
  return scalars;
}

}  // namespace kolo::testing::events
