#include "fetch/file_transfer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/fetch/fetch.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// One transfer, from the file's end on.
class Transfer {
 public:
  explicit Transfer(const Download& request)
      : request_(request),
        file_(::open(request.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)),
        curl_(curl_easy_init(), &curl_easy_cleanup) {
    if (!file_.is_open()) {
      throw Error(
          system_error_text(fmt::format("fetch: cannot write {}", request.file.string()), errno));
    }
    if (!curl_) throw Error("fetch: cannot set up libcurl");
    first_ = done_ = narrow<std::int64_t>(fs::file_size(request.file));
    set_options();
  }

  CURLcode run() {
    const auto code = curl_easy_perform(curl_.get());
    if (failure_) std::rethrow_exception(failure_);
    return code;
  }

  [[nodiscard]] std::int64_t received() const { return done_ - first_; }
  [[nodiscard]] bool was_resumed() const { return first_ > 0; }
  [[nodiscard]] long status() const {
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  [[nodiscard]] std::string reason(CURLcode code) const {
    return error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
  }

 private:
  void set_options() {
    CURL* const curl = curl_.get();
    curl_easy_setopt(curl, CURLOPT_URL, request_.url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https,file");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);  // seconds
    // Gives up a connection over which less than this comes for so long.
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 100L);  // bytes per second
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);    // seconds
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "kolo");
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_.data());
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(first_));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::write);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  }

  // libcurl's callback: no exception may pass through it.
  static std::size_t write(const char* bytes, std::size_t, std::size_t count, void* transfer) {
    auto& self = *static_cast<Transfer*>(transfer);
    try {
      self.append(std::as_bytes(std::span(bytes, count)));
      return count;
    } catch (...) {
      self.failure_ = std::current_exception();
      return 0;
    }
  }

  void append(std::span<const std::byte> bytes) {
    if (done_ + std::ssize(bytes) > request_.bytes) {
      throw Error(fmt::format("fetch: {} is longer than the {} bytes expected", request_.url,
                              request_.bytes));
    }
    write_all(file_.get(), bytes, request_.file);
    done_ += std::ssize(bytes);
    if (request_.progress) request_.progress(done_);
  }

  const Download& request_;
  FileDescriptor file_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::int64_t first_ = 0, done_ = 0;
  std::exception_ptr failure_;
};

bool is_no_address(CURLcode code) {
  return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

// The connection broke, or the server is at its limits: worth another try.
bool may_pass(CURLcode code, long status) {
  constexpr std::array<CURLcode, 6> cuts = {CURLE_PARTIAL_FILE, CURLE_RECV_ERROR,
                                            CURLE_SEND_ERROR,   CURLE_GOT_NOTHING,
                                            CURLE_HTTP2,        CURLE_OPERATION_TIMEDOUT};
  if (code == CURLE_HTTP_RETURNED_ERROR) return status == 408 || status == 429 || status >= 500;
  return std::ranges::find(cuts, code) != cuts.end();
}

// The server won't go on from where the file ends.
bool must_begin_anew(const Transfer& transfer, CURLcode code) {
  const bool range_refused = code == CURLE_HTTP_RETURNED_ERROR && transfer.status() == 416;
  return transfer.was_resumed() &&
         (code == CURLE_RANGE_ERROR || code == CURLE_BAD_DOWNLOAD_RESUME || range_refused);
}

[[noreturn]] void fail(const std::string& url, const std::string& reason, bool is_address) {
  if (is_address) {
    throw InputError(
        fmt::format("fetch: {} is no address: {}; expected http://..., https://... or file://...",
                    url, reason));
  }
  throw Error(
      fmt::format("fetch: cannot get {}: {}; check the network, or name another place with --url",
                  url, reason));
}

std::int64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : narrow<std::int64_t>(size);
}

}  // namespace

bool is_fetching_built() {
  return true;
}

std::int64_t download(const Download& request) {
  constexpr int most_failures = 4;  // one after the other, without a byte
  if (size_of(request.file) > request.bytes) fs::remove(request.file);
  std::int64_t received = 0;
  for (int failures = 0; size_of(request.file) < request.bytes;) {
    Transfer transfer(request);
    const auto code = transfer.run();
    received += transfer.received();
    if (code == CURLE_OK) {
      if (size_of(request.file) >= request.bytes) break;
      fs::remove(request.file);
      fail(request.url, fmt::format("it is shorter than the {} bytes expected", request.bytes),
           false);
    }
    if (must_begin_anew(transfer, code)) {
      fs::remove(request.file);
      continue;
    }
    failures = transfer.received() > 0 ? 0 : failures + 1;
    if (failures == most_failures || !may_pass(code, transfer.status())) {
      if (size_of(request.file) == 0) fs::remove(request.file);
      fail(request.url, transfer.reason(code), is_no_address(code));
    }
    if (request.notice) request.notice(fmt::format("{}; going on", transfer.reason(code)));
    if (failures > 0) std::this_thread::sleep_for(request.pause * (1 << (failures - 1)));
  }
  return received;
}

namespace {

void require(int status) {
  if (status != 1) throw Error("fetch: OpenSSL can't compute MD5 sums here");
}

}  // namespace

std::string md5_of_file(const std::filesystem::path& path) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  require(context && EVP_DigestInit_ex(context.get(), EVP_md5(), nullptr) == 1 ? 1 : 0);
  const auto file = open_regular_file(path);
  std::vector<std::byte> block(std::size_t{1} << 20);
  while (const auto count = read_up_to(file.get(), block, path)) {
    require(EVP_DigestUpdate(context.get(), block.data(), count));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned int length = 0;
  require(EVP_DigestFinal_ex(context.get(), sum.data(), &length));
  std::string text;
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::int64_t{4} << 30;

class Reader {
 public:
  explicit Reader(const fs::path& archive)
      : path_(archive), archive_(archive_read_new(), &archive_read_free) {
    constexpr std::size_t block_bytes = 1 << 16;
    if (!archive_ || archive_read_support_filter_gzip(archive_.get()) != ARCHIVE_OK ||
        archive_read_support_format_tar(archive_.get()) != ARCHIVE_OK ||
        archive_read_open_filename(archive_.get(), archive.c_str(), block_bytes) != ARCHIVE_OK) {
      fail();
    }
  }

  // None at the end.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(archive_.get(), &entry);
    if (status == ARCHIVE_EOF) return nullptr;
    if (status != ARCHIVE_OK) fail();
    return entry;
  }

  void write_entry_to(const fs::path& file) {
    AtomicFile output(file);
    std::vector<std::byte> block(std::size_t{1} << 20);
    while (true) {
      const auto count = archive_read_data(archive_.get(), block.data(), block.size());
      if (count < 0) fail();
      if (count == 0) break;
      bytes_ += count;
      if (bytes_ > most_bytes) {
        throw Error(
            fmt::format("fetch: {} unpacks to more than {} bytes", path_.string(), most_bytes));
      }
      output.write(std::span(block).first(static_cast<std::size_t>(count)));
    }
    output.commit();
  }

 private:
  [[noreturn]] void fail() {
    const char* const reason = archive_ ? archive_error_string(archive_.get()) : nullptr;
    throw Error(fmt::format("fetch: cannot unpack {}: {}", path_.string(),
                            reason != nullptr ? reason : "libarchive failed"));
  }

  const fs::path& path_;
  std::unique_ptr<archive, decltype(&archive_read_free)> archive_;
  std::int64_t bytes_ = 0;
};

}  // namespace

void unpack(const fs::path& archive, const std::string& folder, const fs::path& target) {
  Reader reader(archive);
  while (archive_entry* const entry = reader.next()) {
    const char* const name = archive_entry_pathname(entry);
    const auto type = archive_entry_filetype(entry);
    if (type == AE_IFDIR) continue;
    const auto path = fs::path(name != nullptr ? name : "").lexically_normal();
    const bool is_link =
        archive_entry_hardlink(entry) != nullptr || archive_entry_symlink(entry) != nullptr;
    if (type != AE_IFREG || is_link || path.parent_path() != folder || !path.has_filename()) {
      throw Error(fmt::format("fetch: {} holds {}, expected only files in {}/", archive.string(),
                              path.string(), folder));
    }
    reader.write_entry_to(target / path.filename());
  }
}

}  // namespace kolo
