#include "netboot/image/digest.hpp"

#include <cassert>
#include <fmt/format.h>
#include <openssl/evp.h>

namespace ductl::image {

std::string sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  [[maybe_unused]] const int done = EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  assert(done == 1 && size == kDigestLetters / 2);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

} // namespace ductl::image
