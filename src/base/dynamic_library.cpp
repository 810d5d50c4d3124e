#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace sluice {

Result<DynamicLibrary> DynamicLibrary::open(const char* const* names) {
  std::string reason;
  for (; *names != nullptr; ++names) {
    DynamicLibrary library;
    library.handle_ = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ != nullptr) return library;
    const char* text = dlerror();
    if (reason.empty()) reason = text != nullptr ? text : *names;
  }
  return Error(Code::not_found, fmt::format("{}; install it, or do without", reason));
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace sluice
