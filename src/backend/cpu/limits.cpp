#include "backend/cpu/limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/cpu_info.h"
#include "base/memory.h"

namespace sluice::backend::cpu {
namespace {

// Third-level caches of servers hold 256 MiB.
constexpr size_t kBufferBytes = size_t{512} << 20;
constexpr size_t kReadUnit = 4096;  // a thread's share is whole pages
constexpr double kReadSeconds = 0.4, kComputeSeconds = 0.2;
constexpr double kRunSeconds = 0.004;  // so long that starting and ending together does not count

template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr size_t kPlainSums = 32;

void plain_fmas(uint64_t rounds) {
  float sum[kPlainSums] = {};
  for (uint64_t r = 0; r < rounds; ++r) {
    for (float& s : sum) s = s * 0.5f + 0.25f;
  }
  float all = 0;
  for (const float s : sum) all += s;
  asm volatile("" : : "m"(all));
}

void plain_read(const std::byte* bytes, uint64_t n) {
  constexpr uint64_t kAhead = 512;
  const auto* words = reinterpret_cast<const uint64_t*>(bytes);
  uint64_t sum[16] = {};
  for (uint64_t i = 0; i < n / 8; i += 16) {
    __builtin_prefetch(words + i + kAhead);
    __builtin_prefetch(words + i + kAhead + 8);
    for (size_t j = 0; j < 16; ++j) sum[j] += words[i + j];
  }
  uint64_t all = 0;
  for (const uint64_t s : sum) all += s;
  asm volatile("" : : "m"(all));
}

// Operations a second of all threads together: the best of several runs.
double measure_loop(ThreadPool& pool, void (*loop)(uint64_t), uint64_t per_round) {
  if (loop == nullptr) return 0;
  uint64_t rounds = 1024;
  double best = 0;
  for (double spent = 0; spent < kComputeSeconds;) {
    const double seconds = seconds_of([&] { pool.run([&](uint32_t) { loop(rounds); }); });
    spent += seconds;
    if (seconds < kRunSeconds) {
      rounds *= 2;
      continue;
    }
    best = std::max(best, double(rounds) * double(per_round) * pool.size() / seconds);
  }
  return best;
}

double measure_read(ThreadPool& pool, void (*read)(const std::byte*, uint64_t)) {
  const uint64_t unit = kReadUnit * pool.size();
  const uint64_t n_bytes = std::min<uint64_t>(kBufferBytes, read_memory_info().available_bytes / 4) / unit * unit;
  if (n_bytes == 0 || read == nullptr) return 0;
  const auto memory = HostMemory::allocate(n_bytes);
  if (!memory) return 0;
  const uint64_t share = n_bytes / pool.size();
  pool.run([&](uint32_t idx) { std::memset(memory->data() + idx * share, 1, share); });
  double best = 0;
  for (double spent = 0; spent < kReadSeconds;) {
    const double seconds =
        seconds_of([&] { pool.run([&](uint32_t idx) { read(memory->data() + idx * share, share); }); });
    best = std::max(best, double(n_bytes) / seconds);
    spent += seconds;
  }
  return best;
}

}  // namespace

TierPeak plain_peak() {
  TierPeak peak;
  peak.fmas = plain_fmas;
  peak.fmas_per_round = 2 * kPlainSums;
  peak.read = plain_read;
  return peak;
}

Limits measure_limits(ThreadPool& pool, const TierPeak& peak) {
  return {measure_read(pool, peak.read), measure_loop(pool, peak.dots, peak.dots_per_round),
          measure_loop(pool, peak.fmas, peak.fmas_per_round)};
}

}  // namespace sluice::backend::cpu
