// Instead of file_transfer.cpp, where the packages that it needs are not there.
#include "fetch/file_transfer.h"

#include "kolo/base/error.h"
#include "kolo/fetch/fetch.h"

namespace kolo {

namespace {

[[noreturn]] void refuse() {
  throw InputError(
      "fetch: this kolo was built without libcurl, libarchive and OpenSSL, which fetching takes; "
      "build it with -D KOLO_FETCH=ON where these are installed (libcurl4-openssl-dev, "
      "libarchive-dev, libssl-dev), or get the files otherwise");
}

}  // namespace

bool is_fetching_built() {
  return false;
}

std::int64_t download(const Download& /*request*/) {
  refuse();
}

std::string md5_of_file(const std::filesystem::path& /*path*/) {
  refuse();
}

void unpack(const std::filesystem::path& /*archive*/, const std::string& /*folder*/,
            const std::filesystem::path& /*target*/) {
  refuse();
}

}  // namespace kolo
