// The checksum that names a file's content on the hub, fed as its bytes come.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sluice/result.h"

namespace sluice::hub {

// 64 digits: SHA-256 of the content. 40 digits: git's id of a file, SHA-1 of "blob SIZE\0" and the content.
class Checksum {
 public:
  static Result<Checksum> create(const std::string& oid, uint64_t n_bytes);

  Result<void> restart();
  Result<void> add(std::span<const std::byte> bytes);
  // Whether all that was added is what the oid names. Called once, before the next restart().
  Result<bool> matches();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  Checksum(std::string oid, uint64_t n_bytes) : oid_(std::move(oid)), n_bytes_(n_bytes) {}
  std::string oid_;
  uint64_t n_bytes_;
  std::unique_ptr<void, Free> context_;
};

}  // namespace sluice::hub
