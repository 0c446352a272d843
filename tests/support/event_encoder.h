#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

// Event files as other programs write them, encoded by hand: nothing here shares code with kolo or
// the protobuf library.
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

// What a file begins with.
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

// As PyTorch and TensorFlow 1 write a scalar.
inline std::string scalar(std::string_view tag, float value, std::int64_t step,
                          double time = 1000) {
  return summary(field(1, tag) + field(2, value), step, time);
}

inline constexpr std::uint64_t float_type = 1, double_type = 2, int_type = 3, string_type = 7,
                               long_type = 9;

// A tensor of no dimensions (`shape` is empty, else its encoded dimensions) with its values.
inline std::string tensor(std::uint64_t type, std::string_view values,
                          std::string_view shape = {}) {
  return field(1, type) + field(2, shape).append(values);
}

// As TensorFlow 2 writes a tensor; `plugin` stands with a tag's first value only.
inline std::string tensor_event(std::string_view tag, std::string_view tensor, std::int64_t step,
                                std::string_view plugin = {}, double time = 1000) {
  std::string value = field(1, tag) + field(8, tensor);
  if (!plugin.empty()) value += field(9, field(1, field(1, plugin)));
  return summary(value, step, time);
}

// As TensorFlow 2 and Keras write a scalar.
inline std::string tensor_scalar(std::string_view tag, float value, std::int64_t step,
                                 double time = 1000) {
  return tensor_event(tag, tensor(float_type, field(5, raw(value))), step, "scalars", time);
}

// SessionLog START.
inline std::string restart(std::int64_t step, double time = 1000) {
  return event(field(7, field(1, std::uint64_t{1})), step, time);
}

}  // namespace kolo::testing::events
