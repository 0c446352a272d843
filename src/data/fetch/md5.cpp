#include "data/fetch/md5.h"

#include <array>
#include <memory>
#include <vector>

#include <openssl/evp.h>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

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

}  // namespace kolo
