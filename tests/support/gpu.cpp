#include "support/gpu.h"

#include <cstdlib>
#include <map>

#include "backend/registry.h"

namespace sluice::test {

std::string why_no_backend(const std::string& backend) {
  static std::map<std::string, std::string> known;
  if (const auto it = known.find(backend); it != known.end()) return it->second;
  const auto opened = backend::open({.name = backend});
  return known[backend] = opened ? "" : opened.error().message;
}

bool backend_required(const std::string& backend) {
  const char* required = std::getenv("SLUICE_REQUIRE");
  return required != nullptr && ("," + std::string(required) + ",").find("," + backend + ",") != std::string::npos;
}

}  // namespace sluice::test
