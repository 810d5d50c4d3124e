// Benchmarks end at the first error.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "sluice/result.h"

namespace sluice::bench {

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "error: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace sluice::bench
