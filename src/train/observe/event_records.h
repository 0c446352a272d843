#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "kolo/base/file.h"

// The framing of event files, TensorFlow's TFRecord: a message's length (8 bytes, little-endian),
// the length's masked CRC-32C (4), the message, its masked CRC-32C (4).
namespace kolo {

// Appends a message in its frame.
void append_event_record(std::string& bytes, std::string_view message);

// Takes a file apart into its messages, as far as it is whole. It may be growing meanwhile.
class EventRecordReader {
 public:
  // Error: the file can't be opened.
  explicit EventRecordReader(std::filesystem::path path);

  // The next message, valid until the next call; none at the file's end or where it is damaged, and
  // from then on. Error: the file can't be read.
  [[nodiscard]] std::optional<std::string_view> next();

  // What is wrong with the record at position(); empty: nothing, the file was at its end.
  [[nodiscard]] const std::string& damage() const { return damage_; }
  // Where the record begins that next() gave last, or could not give.
  [[nodiscard]] std::int64_t position() const { return position_; }
  [[nodiscard]] std::int64_t file_size() const { return file_size_; }

 private:
  // The bytes of the record at hand from its first to its `count`th; fewer at the file's end.
  [[nodiscard]] std::string_view peek(std::size_t count);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t file_size_ = 0;  // when it was opened
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what of the buffer is still to be given
  std::size_t given_ = 0;            // the size of the record given last
  std::int64_t position_ = 0;
  std::string damage_;
};

}  // namespace kolo
