// A library that is looked for at run time: what need not be there.
#pragma once
#include <string>
#include <utility>

#include "sluice/result.h"

namespace sluice {

class DynamicLibrary {
 public:
  // The first of the names (nullptr ends them) that the system finds; `not_found` with the system's words otherwise.
  static Result<DynamicLibrary> open(const char* const* names);

  DynamicLibrary() = default;
  DynamicLibrary(DynamicLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~DynamicLibrary();

  void* symbol(const char* name) const;  // nullptr where the library has none of that name

 private:
  void* handle_ = nullptr;
};

}  // namespace sluice
