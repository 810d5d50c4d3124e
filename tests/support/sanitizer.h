// Whether a sanitizer watches: tests then do less of what takes long, and measure nothing that it changes.
#pragma once

namespace sluice::test {

#if defined(__has_feature)
#define SLUICE_HAS_FEATURE(name) __has_feature(name)
#else
#define SLUICE_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || SLUICE_HAS_FEATURE(address_sanitizer) || \
    SLUICE_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#undef SLUICE_HAS_FEATURE

}  // namespace sluice::test
