// Arithmetic on sizes from files and users: none instead of a wrapped result.
#pragma once
#include <cstdint>
#include <optional>

namespace sluice {

constexpr std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  if (sum < a) return std::nullopt;
  return sum;
}

constexpr std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  if (a != 0 && b > UINT64_MAX / a) return std::nullopt;
  return a * b;
}

constexpr bool is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

// The next multiple of `alignment`, a power of two.
constexpr std::optional<uint64_t> checked_align_up(uint64_t value, uint64_t alignment) {
  const auto raised = checked_add(value, alignment - 1);
  if (!raised) return std::nullopt;
  return *raised & ~(alignment - 1);
}

}  // namespace sluice
