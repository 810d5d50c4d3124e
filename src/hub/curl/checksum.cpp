#include "hub/curl/checksum.h"

#include <fmt/format.h>
#include <openssl/evp.h>

namespace sluice::hub {
namespace {

Error no_checksum() {
  return {Code::unsupported, "OpenSSL computes no SHA-256 or SHA-1 here; check its configuration"};
}

EVP_MD_CTX* context_of(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

void Checksum::Free::operator()(void* context) const { EVP_MD_CTX_free(context_of(context)); }

Result<Checksum> Checksum::create(const std::string& oid, uint64_t n_bytes) {
  Checksum sum(oid, n_bytes);
  sum.context_.reset(EVP_MD_CTX_new());
  if (sum.context_ == nullptr) return Error{Code::out_of_memory, "no memory for a checksum; free some"};
  TRY(sum.restart());
  return sum;
}

Result<void> Checksum::restart() {
  const bool git = oid_.size() == 40;
  if (EVP_DigestInit_ex(context_of(context_.get()), git ? EVP_sha1() : EVP_sha256(), nullptr) != 1)
    return no_checksum();
  if (!git) return {};
  const std::string head = fmt::format("blob {}", n_bytes_);
  return add(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
}

Result<void> Checksum::add(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(context_of(context_.get()), bytes.data(), bytes.size()) != 1) return no_checksum();
  return {};
}

Result<bool> Checksum::matches() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned n = 0;
  if (EVP_DigestFinal_ex(context_of(context_.get()), digest, &n) != 1) return no_checksum();
  std::string text;
  for (unsigned i = 0; i < n; ++i) text += fmt::format("{:02x}", digest[i]);
  return text == oid_;
}

}  // namespace sluice::hub
