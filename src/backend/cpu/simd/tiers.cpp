#include "backend/cpu/simd/tiers.h"

#include <initializer_list>

#include "backend/cpu/simd/tier_tables.h"
#include "base/cpu_info.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sluice::backend::cpu {
namespace {

constexpr std::string_view kNames[] = {"scalar", "avx2", "avx512", "neon", "neon_i8mm"};

[[maybe_unused]] std::vector<TierKernel> join(std::initializer_list<TierTable> tables) {
  std::vector<TierKernel> all;
  for (const TierTable& table : tables) all.insert(all.end(), table.kernels, table.kernels + table.n);
  return all;
}

#if SLUICE_HAVE_AVX2 || SLUICE_HAVE_AVX512
// clang 14 knows no name for F16C in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
#endif
#if SLUICE_HAVE_AVX512
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif
#if SLUICE_HAVE_NEON
bool runs_neon() { return arm_has_dotprod_and_fp16(); }
#endif
#if SLUICE_HAVE_NEON_I8MM
bool runs_neon_i8mm() { return runs_neon() && arm_has_i8mm(); }
#endif

}  // namespace

std::string_view tier_name(Tier tier) { return kNames[static_cast<size_t>(tier)]; }

std::optional<Tier> parse_tier(std::string_view text) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<Tier>(i);
  }
  return std::nullopt;
}

std::vector<Tier> tiers() {
  std::vector<Tier> all = {Tier::scalar};
#if SLUICE_HAVE_AVX2
  if (runs_avx2()) all.push_back(Tier::avx2);
#endif
#if SLUICE_HAVE_AVX512
  if (runs_avx512()) all.push_back(Tier::avx512);
#endif
#if SLUICE_HAVE_NEON
  if (runs_neon()) all.push_back(Tier::neon);
#endif
#if SLUICE_HAVE_NEON_I8MM
  if (runs_neon_i8mm()) all.push_back(Tier::neon_i8mm);
#endif
  return all;
}

std::span<const TierKernel> kernels_of(Tier tier) {
#define SLUICE_JOIN(name)                                                                                          \
  static const std::vector<TierKernel> all = join(                                                                 \
      {name::panel_kernels(), name::row_major_kernels(), name::elementwise_kernels(), name::attention_kernels()}); \
  return all
  switch (tier) {
#if SLUICE_HAVE_AVX2
    case Tier::avx2: {
      SLUICE_JOIN(avx2);
    }
#endif
#if SLUICE_HAVE_AVX512
    case Tier::avx512: {
      SLUICE_JOIN(avx512);
    }
#endif
#if SLUICE_HAVE_NEON
    case Tier::neon: {
      SLUICE_JOIN(neon);
    }
#endif
#if SLUICE_HAVE_NEON_I8MM
    case Tier::neon_i8mm: {
      static const std::vector<TierKernel> all = join({neon_i8mm::panel_kernels()});
      return all;
    }
#endif
    default:
      return {};
  }
#undef SLUICE_JOIN
}

TierPeak peak_of(Tier tier) {
  switch (tier) {
#if SLUICE_HAVE_AVX2
    case Tier::avx2:
      return avx2::peak();
#endif
#if SLUICE_HAVE_AVX512
    case Tier::avx512:
      return avx512::peak();
#endif
#if SLUICE_HAVE_NEON
    case Tier::neon:
      return neon::peak();
#endif
#if SLUICE_HAVE_NEON_I8MM
    case Tier::neon_i8mm:
      return neon_i8mm::peak();
#endif
    default:
      return {};
  }
}

bool claim_items(Worker& worker, uint64_t n_items, uint64_t chunk, uint64_t& begin, uint64_t& end) {
  Chunk c;
  if (!worker.claim(n_items, chunk, c)) return false;
  begin = c.begin;
  end = c.end;
  return true;
}

uint64_t n_workers(const Worker& worker) { return worker.n(); }
std::byte* scratch_of(const Worker& worker) { return worker.scratch<std::byte>(); }
KernelKey key_of(const Worker& worker) { return worker.key(); }

}  // namespace sluice::backend::cpu
