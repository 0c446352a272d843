#include "train/observe/event_records.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <boost/crc.hpp>

namespace kolo {

static_assert(std::endian::native == std::endian::little, "TFRecord numbers are little-endian");

namespace {

constexpr std::size_t length_size = 8, checksum_size = 4;
constexpr std::size_t head_size = length_size + checksum_size;
constexpr std::size_t read_size = 256 * 1024;
// Protocol buffers end at 2 GiB.
constexpr std::uint64_t longest_message = std::numeric_limits<std::int32_t>::max();

// CRC-32C (Castagnoli), rotated and shifted as TFRecord asks for, so that the checksum of data that
// holds checksums stays useful.
std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8U;
}

template <typename T>
std::string bytes_of(T number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

template <typename T>
T number_at(std::string_view bytes, std::size_t place) {
  T number{};
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

}  // namespace

void append_event_record(std::string& bytes, std::string_view message) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(message.size()));
  bytes += length;
  bytes += bytes_of(masked_crc(length));
  bytes += message;
  bytes += bytes_of(masked_crc(message));
}

EventRecordReader::EventRecordReader(std::filesystem::path path)
    : path_(std::move(path)),
      file_(open_regular_file(path_)),
      file_size_(size_in_bytes(file_, path_)) {}

std::string_view EventRecordReader::peek(std::size_t count) {
  if (end_ - begin_ < count) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    const auto piece = std::min(read_size, static_cast<std::size_t>(file_size_));
    buffer_.resize(std::max({buffer_.size(), count, piece}));
    const auto room = std::as_writable_bytes(std::span(buffer_).subspan(end_));
    end_ += read_up_to(file_.get(), room, path_);
  }
  return std::string_view(buffer_).substr(begin_, std::min(count, end_ - begin_));
}

std::optional<std::string_view> EventRecordReader::next() {
  if (!damage_.empty()) return std::nullopt;
  begin_ += given_;
  position_ += static_cast<std::int64_t>(std::exchange(given_, 0));
  const auto damaged = [this](std::string what) -> std::nullopt_t {
    damage_ = std::move(what);
    return std::nullopt;
  };

  const std::string_view head = peek(head_size);
  if (head.empty()) return std::nullopt;
  if (head.size() < head_size)
    return damaged(fmt::format("the file ends within a record's first {} bytes", head_size));
  const auto length = number_at<std::uint64_t>(head, 0);
  if (number_at<std::uint32_t>(head, length_size) != masked_crc(head.substr(0, length_size)))
    return damaged("the checksum of a record's length is wrong");
  if (length > longest_message)
    return damaged(fmt::format("a record of {} bytes, longer than any event", length));
  const std::size_t size = head_size + static_cast<std::size_t>(length) + checksum_size;
  // A length is believed only as far as the file goes: a buffer is made for it.
  const std::int64_t rest = file_size_ - position_;
  if (std::cmp_greater(size, rest) || peek(size).size() < size)
    return damaged(fmt::format("the file ends within a record of {} bytes", size));
  const std::string_view message = peek(size).substr(head_size, static_cast<std::size_t>(length));
  if (number_at<std::uint32_t>(peek(size), size - checksum_size) != masked_crc(message))
    return damaged("a record's checksum is wrong");
  given_ = size;
  return message;
}

}  // namespace kolo
